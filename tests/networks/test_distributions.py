from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import distributions as reference

from alfish import nest
from alfish.errors import ConfigError
from alfish.networks.distributions import Categorical, DiagonalNormal, Distribution, Joint, SquashedNormal
from alfish.specs import BoundedTensorSpec


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(cls: type = DiagonalNormal, *shape: int, seed: int = 0) -> Distribution:
    source = generator(seed)
    mean = torch.randn(*shape, generator=source)
    return cls(mean, torch.rand(*shape, generator=source) + 0.3)


def continuous(low: object, high: object, shape: tuple[int, ...] = (2,)) -> BoundedTensorSpec:
    return BoundedTensorSpec(shape, torch.float32, np.asarray(low, np.float32), np.asarray(high, np.float32))


def discrete(low: object, high: object, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.int64):
    return BoundedTensorSpec(shape, dtype, np.asarray(low), np.asarray(high))


@pytest.mark.parametrize("leading", [(5,), (3, 5), ()])
def test_categorical_agrees_with_torch(leading: tuple[int, ...]) -> None:
    logits, other = torch.randn(2, *leading, 4, generator=generator())
    ours, theirs = Categorical(logits), reference.Categorical(logits=logits)
    action = ours.sample(generator())
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    expected = reference.kl_divergence(theirs, reference.Categorical(logits=other))
    torch.testing.assert_close(ours.kl(Categorical(other)), expected)
    assert action.shape == ours.entropy().shape == leading
    assert torch.equal(ours.mode(), logits.argmax(-1))


@pytest.mark.parametrize(
    "distribution",
    [
        Categorical(torch.randn(3, 5, 4, generator=generator())),
        Categorical.for_spec(discrete([2, 2], [4, 4], (2,)))(torch.randn(5, 2, 3, generator=generator())),
        normal(DiagonalNormal, 3, 5, 2),
        normal(SquashedNormal, 5, 2),
        Joint({"a": normal(DiagonalNormal, 5, 2), "b": Categorical(torch.randn(5, 4, generator=generator()))}),
    ],
)
def test_log_prob_and_entropy_are_the_two_to_the_bit(distribution: Distribution) -> None:
    action = distribution.sample(generator(1))
    log_prob, entropy = distribution.log_prob_and_entropy(action)
    assert torch.equal(log_prob, distribution.log_prob(action))
    assert torch.equal(entropy, distribution.entropy())


def test_categorical_samples_follow_the_probabilities() -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    count = 100_000
    samples = Categorical(probabilities.log().expand(count, 4)).sample(generator())
    expected = probabilities * count
    chi_square = ((samples.bincount(minlength=4) - expected).square() / expected).sum()
    assert chi_square < 16.3  # 0.1 % with 3 degrees of freedom


def test_samples_repeat_with_the_generator_and_ignore_the_global_one() -> None:
    for distribution in (Categorical(torch.randn(64, 4)), normal(DiagonalNormal, 64, 2), normal(SquashedNormal, 64, 2)):
        first = distribution.sample(generator(1))
        torch.manual_seed(5)
        assert torch.equal(first, distribution.sample(generator(1)))
        assert not torch.equal(first, distribution.sample(generator(2)))


def test_discrete_actions_may_start_anywhere() -> None:
    cls = Categorical.for_spec(discrete(3, 6))
    logits = torch.randn(1000, 4, generator=generator())
    samples = cls(logits).sample(generator())
    assert samples.dtype == torch.int64
    assert samples.unique().tolist() == [3, 4, 5, 6]
    torch.testing.assert_close(
        cls(logits).log_prob(samples), reference.Categorical(logits=logits).log_prob(samples - 3)
    )
    assert torch.equal(cls(logits).mode(), logits.argmax(-1) + 3)


def test_several_choices_are_one_action() -> None:
    cls = Categorical.for_spec(discrete([0, 5], [2, 7], (2,)))
    logits = torch.randn(6, 2, 3, generator=generator())
    ours = cls(logits)
    theirs = reference.Independent(reference.Categorical(logits=logits), 1)
    action = ours.sample(generator())
    assert action.shape == (6, 2)
    assert (action[:, 1] >= 5).all()
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action - torch.tensor([0, 5])))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert ours.kl(ours).shape == (6,)
    grid = Categorical.for_spec(discrete(0, 1, (2, 3)))(torch.randn(6, 2, 3, 2))
    assert grid.sample().shape == (6, 2, 3)
    assert grid.log_prob(grid.mode()).shape == (6,)


def test_actions_have_the_dtype_of_the_spec() -> None:
    distribution = Categorical.for_spec(discrete(0, 2, dtype=torch.int32))(torch.randn(4, 3))
    assert distribution.sample().dtype == torch.int32
    assert distribution.log_prob(distribution.mode()).shape == (4,)


@pytest.mark.parametrize("shape", [(5, 2), (3, 5, 2)])
def test_diagonal_normal_agrees_with_torch(shape: tuple[int, ...]) -> None:
    ours, other = normal(DiagonalNormal, *shape), normal(DiagonalNormal, *shape, seed=1)
    theirs, second = (reference.Independent(reference.Normal(d.mean, d.std), 1) for d in (ours, other))
    action = ours.sample(generator())
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    torch.testing.assert_close(ours.kl(other), reference.kl_divergence(theirs, second))
    assert ours.mode() is ours.mean


def test_normal_of_other_ranks() -> None:
    scalar = DiagonalNormal.for_spec(continuous(-1, 1, ()))(torch.zeros(5), torch.ones(5))
    assert scalar.log_prob(scalar.sample()).shape == (5,)
    matrix = DiagonalNormal.for_spec(continuous(-1, 1, (2, 3)))(torch.zeros(5, 2, 3), torch.ones(5, 2, 3))
    torch.testing.assert_close(matrix.entropy(), 6 * scalar.entropy())


def test_normal_samples_have_the_moments() -> None:
    mean, std = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])
    samples = DiagonalNormal(mean.expand(100_000, 2), std.expand(100_000, 2)).sample(generator())
    torch.testing.assert_close(samples.mean(0), mean, atol=0.03, rtol=0)
    torch.testing.assert_close(samples.std(0), std, atol=0.03, rtol=0)


def test_squashed_normal_agrees_with_torch() -> None:
    spec = continuous([-2, 0], [2, 10])
    ours = normal(SquashedNormal.for_spec(spec), 7, 2)
    squash = [reference.TanhTransform(), reference.AffineTransform(torch.tensor([0.0, 5.0]), torch.tensor([2.0, 5.0]))]
    theirs = reference.Independent(reference.TransformedDistribution(reference.Normal(ours.mean, ours.std), squash), 1)
    action = ours.sample(generator())
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action), rtol=1e-4, atol=1e-4)
    assert (action >= torch.tensor([-2.0, 0.0])).all()
    assert (action <= torch.tensor([2.0, 10.0])).all()
    torch.testing.assert_close(ours.mode(), torch.tensor([0.0, 5.0]) + torch.tensor([2.0, 5.0]) * ours.mean.tanh())


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (1.5, 0.4), (-0.5, 2.0)])
def test_squashed_density_integrates_to_one(mean: float, std: float) -> None:
    cls = SquashedNormal.for_spec(continuous(-3, 5, (1,)))
    # Equal steps of u, transformed, are fine where the density is steep.
    grid = 1 + 4 * torch.linspace(-8, 8, 20_001, dtype=torch.float64).tanh()
    distribution = cls(torch.full((20_001, 1), mean).double(), torch.full((20_001, 1), std).double())
    density = distribution.log_prob(grid.unsqueeze(-1)).exp()
    assert torch.trapezoid(density, grid).item() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("std", [0.05, 0.7, 2.0, 7.0])
def test_squashed_entropy_is_the_mean_negative_log_prob(std: float) -> None:
    cls = SquashedNormal.for_spec(continuous(-3, 5, (1,)))
    distribution = cls(torch.full((200_000, 1), 0.4), torch.full((200_000, 1), std))
    _, log_prob = distribution.rsample_and_log_prob(generator())
    error = 4 * log_prob.std() / 200_000**0.5
    torch.testing.assert_close(distribution.entropy()[0], -log_prob.mean(), atol=float(error) + 1e-3, rtol=0)


def test_squashed_log_prob_stays_finite_at_the_bounds_and_far_out() -> None:
    mean = torch.tensor([[30.0], [0.0]], requires_grad=True)
    distribution = SquashedNormal(mean, torch.ones(2, 1))
    action, log_prob = distribution.rsample_and_log_prob(generator())
    edge = distribution.log_prob(torch.tensor([[1.0], [-1.0]]))
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(edge).all()
    (action.sum() + log_prob.sum() + edge.sum()).backward()
    assert torch.isfinite(mean.grad).all()


def test_both_ways_to_a_squashed_log_prob_agree() -> None:
    distribution = normal(SquashedNormal.for_spec(continuous([-2, 0], [2, 1])), 50, 2)
    action, log_prob = distribution.rsample_and_log_prob(generator())
    torch.testing.assert_close(distribution.log_prob(action), log_prob, rtol=1e-3, atol=1e-3)
    assert torch.equal(action, distribution.sample(generator()))


@pytest.mark.parametrize("cls", [DiagonalNormal, SquashedNormal])
def test_kl_by_monte_carlo(cls: type) -> None:
    one = cls(torch.full((100_000, 1), 0.2), torch.full((100_000, 1), 0.6))
    two = cls(torch.full((100_000, 1), -0.3), torch.full((100_000, 1), 0.9))
    action = one.sample(generator())
    differences = one.log_prob(action) - two.log_prob(action)
    torch.testing.assert_close(one.kl(two)[0], differences.mean(), atol=0.02, rtol=0)


def test_gradient_reaches_the_parameters_through_rsample_only() -> None:
    for cls in (DiagonalNormal, SquashedNormal):
        mean = torch.zeros(3, 2, requires_grad=True)
        distribution = cls(mean, torch.ones(3, 2))
        assert not distribution.sample(generator()).requires_grad
        distribution.rsample(generator()).sum().backward()
        assert (mean.grad > 0).all()
    with pytest.raises(NotImplementedError, match="Categorical has no reparameterised sample"):
        Categorical(torch.zeros(2, 3)).rsample()


def test_squashing_needs_bounds() -> None:
    with pytest.raises(ConfigError, match="finite bounds"):
        SquashedNormal.for_spec(continuous(-np.inf, 1))


def joint() -> Joint:
    steer = normal(SquashedNormal.for_spec(continuous([-2, 0], [2, 10])), 6, 2)
    gear = Categorical.for_spec(discrete(1, 3))(torch.randn(6, 3, generator=generator()))
    return Joint({"steer": steer, "rest": (gear,)})


def test_joint_adds_up() -> None:
    whole = joint()
    steer, gear = whole.parts["steer"], whole.parts["rest"][0]
    action = whole.sample(generator())
    expected = steer.log_prob(action["steer"]) + gear.log_prob(action["rest"][0])
    torch.testing.assert_close(whole.log_prob(action), expected)
    torch.testing.assert_close(whole.entropy(), steer.entropy() + gear.entropy())
    assert nest.same_structure(whole.mode(), action)
    assert torch.equal(whole.kl(whole), torch.zeros(6))


def test_joint_of_continuous_parts_has_rsample() -> None:
    whole = Joint((normal(DiagonalNormal, 4, 1), normal(SquashedNormal, 4, 2)))
    action, log_prob = whole.rsample_and_log_prob(generator())
    torch.testing.assert_close(whole.log_prob(action), log_prob)
    assert torch.equal(action[1], whole.rsample(generator())[1])


def test_constants_survive_nest_functions_and_are_no_leaves() -> None:
    whole = joint()
    assert len(nest.leaves(whole)) == 3  # mean, std, logits
    stacked = nest.stack([whole, nest.map(lambda leaf: leaf + 0.1, whole)])
    assert stacked.entropy().shape == (2, 6)
    again = nest.index(stacked, 0)
    action = whole.sample(generator())
    torch.testing.assert_close(again.log_prob(action), whole.log_prob(action))
    assert nest.same_structure(again, whole)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_constants_survive_copies(duplicate) -> None:
    whole = joint()
    again = duplicate(whole)
    action = whole.sample(generator())
    assert torch.equal(again.log_prob(action), whole.log_prob(action))
    assert nest.same_structure(again, whole)


def test_plain_specs_need_no_class_of_their_own() -> None:
    assert Categorical.for_spec(discrete(0, 3)) is Categorical
    assert DiagonalNormal.for_spec(continuous(-2, 2)) is DiagonalNormal
    assert SquashedNormal.for_spec(continuous(-1, 1)) is SquashedNormal
    assert SquashedNormal.for_spec(continuous(-2, 2)) is SquashedNormal.for_spec(continuous(-2, 2))

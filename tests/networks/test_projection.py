from __future__ import annotations

from math import log

import gin
import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
from alfish.networks.activations import exp
from alfish.networks.distributions import Categorical, DiagonalNormal, SquashedNormal
from alfish.networks.projection import (
    CategoricalProjectionNetwork,
    NormalProjectionNetwork,
    StableNormalProjectionNetwork,
)
from alfish.specs import BoundedTensorSpec

FEATURES = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


def choice(low: object, high: object, shape: tuple[int, ...] = ()) -> BoundedTensorSpec:
    return BoundedTensorSpec(shape, torch.int64, np.asarray(low), np.asarray(high))


def box(low: object, high: object, shape: tuple[int, ...] = (2,)) -> BoundedTensorSpec:
    return BoundedTensorSpec(shape, torch.float32, np.asarray(low, np.float32), np.asarray(high, np.float32))


def test_first_policies_are_nearly_uniform() -> None:
    distribution = CategoricalProjectionNetwork(6, choice(0, 3))(FEATURES)
    assert isinstance(distribution, Categorical)
    assert distribution.logits.shape == (5, 4)
    torch.testing.assert_close(distribution.entropy(), torch.full((5,), log(4)), atol=1e-3, rtol=0)


def test_logits_init_output_factor_is_the_gain() -> None:
    torch.manual_seed(0)
    small = CategoricalProjectionNetwork(6, choice(0, 3), logits_init_output_factor=0.1)(FEATURES).logits
    torch.manual_seed(0)
    large = CategoricalProjectionNetwork(6, choice(0, 3), logits_init_output_factor=1.0)(FEATURES).logits
    torch.testing.assert_close(10 * small, large)


def test_masked_actions_are_never_chosen_and_do_not_count() -> None:
    logits_of = CategoricalProjectionNetwork(6, choice(1, 4), logits_init_output_factor=1.0)
    mask = torch.tensor([True, False, True, False]).expand(5, 4)
    distribution = logits_of(FEATURES, mask)
    samples = torch.stack([distribution.sample() for _ in range(500)])
    assert samples.unique().tolist() == [1, 3]
    assert distribution.mode().unique().tolist() in ([1], [3], [1, 3])
    allowed = torch.distributions.Categorical(logits=logits_of(FEATURES).logits[:, [0, 2]])
    torch.testing.assert_close(distribution.entropy(), allowed.entropy())
    torch.testing.assert_close(distribution.log_prob(torch.full((5,), 3)), allowed.log_prob(torch.ones(5)))
    (distribution.entropy().sum() + distribution.kl(logits_of(FEATURES, mask)).sum()).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in logits_of.parameters())


def test_choices_of_unequal_sizes() -> None:
    projection = CategoricalProjectionNetwork(6, choice([0, 3], [1, 6], (2,)), logits_init_output_factor=1.0)
    distribution = projection(FEATURES)
    samples = torch.stack([distribution.sample() for _ in range(500)]).flatten(0, 1)
    assert samples[:, 0].unique().tolist() == [0, 1]
    assert samples[:, 1].unique().tolist() == [3, 4, 5, 6]
    first = torch.distributions.Categorical(logits=distribution.logits[:, 0, :2])
    second = torch.distributions.Categorical(logits=distribution.logits[:, 1])
    torch.testing.assert_close(distribution.entropy(), first.entropy() + second.entropy())
    mask = torch.tensor([[True, False, False, False], [False, False, True, True]]).expand(5, 2, 4)
    masked = torch.stack([projection(FEATURES, mask).sample() for _ in range(200)]).flatten(0, 1)
    assert masked[:, 0].unique().tolist() == [0]
    assert masked[:, 1].unique().tolist() == [5, 6]


def test_normal_has_one_std_for_all_states_by_default() -> None:
    distribution = NormalProjectionNetwork(6, box(-2, 2), std_bias_initializer_value=log(0.5), std_transform=exp)(
        FEATURES
    )
    assert isinstance(distribution, DiagonalNormal)
    torch.testing.assert_close(distribution.std, torch.full((5, 2), 0.5))
    assert distribution.mean.abs().max() < 0.2


def test_normal_with_a_std_per_state() -> None:
    projection = NormalProjectionNetwork(6, box(-2, 2), state_dependent_std=True, projection_output_init_gain=1.0)
    distribution = projection(FEATURES)
    assert (distribution.std > 0).all()
    assert distribution.std.std(0).min() > 0
    distribution.log_prob(distribution.sample()).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in projection.parameters())


def test_squash_mean_takes_the_mean_into_finite_bounds() -> None:
    spec = box([1, -np.inf], [3, np.inf])
    far = NormalProjectionNetwork(6, spec, projection_output_init_gain=1.0)(1000 * FEATURES).mean
    assert ((far[:, 0] >= 1) & (far[:, 0] <= 3)).all()
    assert far[:, 1].abs().max() > 10
    free = NormalProjectionNetwork(6, spec, projection_output_init_gain=1.0, squash_mean=False)(1000 * FEATURES).mean
    assert free[:, 0].abs().max() > 10


def test_scale_distribution_keeps_samples_within_bounds() -> None:
    distribution = NormalProjectionNetwork(6, box([-3, 0], [-1, 9]), scale_distribution=True)(FEATURES)
    assert isinstance(distribution, SquashedNormal)
    samples = torch.stack([distribution.sample() for _ in range(200)]).flatten(0, 1)
    assert (samples[:, 0] >= -3).all()
    assert (samples[:, 0] <= -1).all()
    assert samples[:, 1].max() > 8
    torch.testing.assert_close(distribution.mode(), torch.tensor([-2.0, 4.5]).expand(5, 2), atol=0.2, rtol=0)


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_actions_of_any_rank(shape: tuple[int, ...]) -> None:
    for projection in (NormalProjectionNetwork, StableNormalProjectionNetwork):
        distribution = projection(6, box(-1, 1, shape))(FEATURES)
        assert distribution.sample().shape == (5, *shape)
        assert distribution.log_prob(distribution.mode()).shape == (5,)


def test_stable_normal_starts_at_init_std_and_keeps_its_limits() -> None:
    start = StableNormalProjectionNetwork(6, box(-1, 1), init_std=0.5)(FEATURES)
    assert isinstance(start, SquashedNormal)
    torch.testing.assert_close(start.std, torch.full((5, 2), 0.5), atol=0.02, rtol=0)
    wild = StableNormalProjectionNetwork(6, box(-1, 1), projection_output_init_gain=100.0, min_std=0.1, max_std=2.0)
    std = wild(FEATURES).std
    assert std.min().item() == pytest.approx(0.1)
    assert std.max().item() == pytest.approx(2.0)
    with pytest.raises(ConfigError, match="init_std = 5 is not between"):
        StableNormalProjectionNetwork(6, box(-1, 1), init_std=5, max_std=2.0)


def test_bindings_of_the_normal_projection_leave_the_stable_one_alone() -> None:
    gin.parse_config("NormalProjectionNetwork.std_bias_initializer_value = 3.0")
    assert NormalProjectionNetwork(6, box(-1, 1)).std_bias.tolist() == [3, 3]
    assert StableNormalProjectionNetwork(6, box(-1, 1)).std_bias.tolist() == [0, 0]


def test_projections_refuse_the_other_kind_of_action() -> None:
    with pytest.raises(
        ConfigError, match=r"CategoricalProjectionNetwork is for discrete .* Use NormalProjectionNetwork"
    ):
        CategoricalProjectionNetwork(6, box(-1, 1))
    with pytest.raises(ConfigError, match=r"StableNormalProjectionNetwork is for continuous .* Use Categorical"):
        StableNormalProjectionNetwork(6, choice(0, 3))

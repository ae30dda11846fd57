from __future__ import annotations

import io
import math

import pytest
import torch
from torch import nn

from alfish.errors import CheckpointError
from alfish.optimizers.adam import Adam, AdamW
from alfish.optimizers.optimizer import step_together
from alfish.optimizers.schedulers import LinearScheduler
from alfish.optimizers.sgd import SGD, RMSprop
from alfish.progress import Progress

ALL = [Adam, AdamW, lambda: SGD(momentum=0.9), lambda: RMSprop(momentum=0.5)]


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return dict(module.named_parameters())


def set_gradients(module: nn.Module, seed: int, scale: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.grad = scale * torch.randn(parameter.shape, generator=generator)


def snapshot(module: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def vector(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values))


def with_gradient(*gradient: float) -> nn.Parameter:
    parameter = vector(*(0.0 for _ in gradient))
    parameter.grad = torch.tensor(gradient)
    return parameter


def test_gradients_are_clipped_to_the_exact_global_norm():
    a, b = with_gradient(3.0, 0.0), with_gradient(0.0, 4.0)
    optimizer = SGD(lr=1.0, gradient_clipping=1.0)
    optimizer.add_parameters({"a": a, "b": b})
    assert optimizer.step(Progress()) == pytest.approx(5.0)
    assert a.tolist() == pytest.approx([-0.6, 0.0])
    assert b.tolist() == pytest.approx([0.0, -0.8])


def test_gradients_can_be_clipped_parameter_by_parameter():
    a, b, c = with_gradient(3.0, 0.0), with_gradient(0.0, 0.5), with_gradient(0.0, 0.0)
    optimizer = SGD(lr=1.0, gradient_clipping=1.0, clip_by_global_norm=False)
    optimizer.add_parameters({"a": a, "b": b, "c": c})
    assert optimizer.step(Progress()) == pytest.approx(math.sqrt(9.25))
    assert [a.tolist(), b.tolist(), c.tolist()] == [[-1.0, 0.0], [0.0, -0.5], [0.0, 0.0]]


@pytest.mark.parametrize("make", [Adam, AdamW, SGD, RMSprop])
def test_clipping_within_a_kernel_is_clipping_before_it(make):
    """Of small networks and of large ones, whose norms are computed in other ways."""
    for width in (8, 400):
        clipped, scaled = nn.Linear(width, width), nn.Linear(width, width)
        scaled.load_state_dict(clipped.state_dict())
        optimizer, plain = make(lr=0.1, gradient_clipping=0.5), make(lr=0.1)
        optimizer.add_parameters(parameters(clipped))
        plain.add_parameters(parameters(scaled))
        for seed in range(3):
            for module in (clipped, scaled):
                set_gradients(module, seed, scale=10.0)
            norm = nn.utils.clip_grad_norm_(scaled.parameters(), 0.5).item()
            assert optimizer.step(Progress()) == pytest.approx(norm, rel=1e-5)
            plain.step(Progress())
            torch.testing.assert_close(snapshot(clipped), snapshot(scaled), rtol=1e-4, atol=1e-5)
            for one, other in zip(clipped.parameters(), scaled.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)


def test_gradients_below_the_limit_are_left_alone():
    a = with_gradient(3.0, 4.0)
    optimizer = SGD(lr=1.0, gradient_clipping=5.5)
    optimizer.add_parameters({"a": a})
    optimizer.step(Progress())
    assert a.tolist() == [-3.0, -4.0]


def test_the_learning_rate_follows_its_scheduler():
    a = vector(0.0)
    optimizer = SGD(lr=LinearScheduler("updates", [(0, 1.0), (4, 0.0)]))
    optimizer.add_parameters({"a": a})
    for updates, expected in [(0, -1.0), (1, -1.75), (2, -2.25), (4, -2.25)]:
        a.grad = torch.ones(1)
        optimizer.step(Progress(updates=updates))
        assert a.item() == expected
    assert optimizer.current_lr(Progress(updates=1)) == 0.75


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(make, poison):
    module, optimizer = network(), make()
    optimizer.add_parameters(parameters(module))
    set_gradients(module, seed=0)
    optimizer.step(Progress())
    before = snapshot(module)
    state = {name: {k: v.clone() for k, v in one.items()} for name, one in optimizer.state_dict().items()}
    set_gradients(module, seed=1)
    module[2].weight.grad[1, 3] = poison
    assert not math.isfinite(optimizer.step(Progress()))
    assert torch.equal(snapshot(module), before)
    for name, one in optimizer.state_dict().items():
        assert all(torch.equal(value, state[name][key]) for key, value in one.items())


def test_optimizers_step_together_or_not_at_all():
    good, bad = with_gradient(1.0), with_gradient(math.nan)
    first, second = SGD(lr=1.0), SGD(lr=1.0)
    first.add_parameters({"good": good})
    second.add_parameters({"bad": bad})
    norms = step_together({"first": first, "second": second}, Progress())
    assert norms["first"] == 1.0
    assert math.isnan(norms["second"])
    assert good.item() == 0.0
    bad.grad = torch.tensor([2.0])
    assert step_together({"first": first, "second": second}, Progress()) == {"first": 1.0, "second": 2.0}
    assert [good.item(), bad.item()] == [-1.0, -2.0]


def test_zero_grad_and_parameters_without_gradient():
    a, b = with_gradient(1.0), with_gradient(1.0)
    optimizer = Adam(lr=0.1)
    optimizer.add_parameters({"a": a, "b": b})
    optimizer.step(Progress())
    optimizer.zero_grad()
    assert a.grad is None
    a.grad = torch.ones(1)
    moved = b.item()
    optimizer.step(Progress())
    assert b.item() == moved
    optimizer.zero_grad()
    assert optimizer.step(Progress()) == 0.0


@pytest.mark.parametrize("make", ALL)
def test_a_saved_optimizer_goes_on_as_if_nothing_had_happened(make):
    module, other = network(), network()
    optimizer, resumed = make(), make()
    optimizer.add_parameters(parameters(module))
    for seed in range(3):
        set_gradients(module, seed)
        optimizer.step(Progress())
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(module.state_dict())
    # Another order of the parameters: state belongs to names.
    resumed.add_parameters(dict(reversed(parameters(other).items())))
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for seed in range(3, 6):
        for each, its in ((module, optimizer), (other, resumed)):
            set_gradients(each, seed)
            its.step(Progress())
    assert torch.equal(snapshot(module), snapshot(other))


def test_loading_copies():
    module = network()
    optimizer, other = Adam(), Adam()
    for each in (optimizer, other):
        each.add_parameters(parameters(module))
    set_gradients(module, 0)
    optimizer.step(Progress())
    other.load_state_dict(optimizer.state_dict())
    other.step(Progress())
    assert optimizer.state_dict()["0.weight"]["step"].item() == 1.0


def test_state_of_another_network_is_refused_with_names():
    optimizer = Adam()
    optimizer.add_parameters({"a": vector(0.0)})
    with pytest.raises(CheckpointError, match=r"Adam\(lr=0.001\).* state for b, which"):
        optimizer.load_state_dict({"b": {}})
    with pytest.raises(CheckpointError, match=r"state of a is .*\(2,\).*expected .*\(1,\)"):
        optimizer.load_state_dict({"a": Adam()._new_state(vector(0.0, 0.0))})


def test_a_parameter_is_owned_once():
    optimizer, a = Adam(), vector(0.0)
    optimizer.add_parameters({"a": a})
    with pytest.raises(ValueError, match="has b already, as a"):
        optimizer.add_parameters({"b": a})
    with pytest.raises(ValueError, match="has a already"):
        optimizer.add_parameters({"a": vector(1.0)})
    assert list(optimizer.named_parameters) == ["a"]


def test_it_reads_well_in_a_report():
    assert str(Adam(lr=3e-4, gradient_clipping=0.5)) == "Adam(lr=0.0003, gradient_clipping=0.5)"
    assert str(SGD(lr=LinearScheduler("percent", [(0, 1.0), (1, 0.0)]))) == "SGD(lr=LinearScheduler)"

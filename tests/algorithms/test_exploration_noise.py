from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish import specs
from alfish.algorithms.exploration_noise import ActionBounds, GaussianNoise, OUNoise
from alfish.optimizers.schedulers import LinearScheduler
from alfish.progress import Progress
from alfish.specs import BoundedTensorSpec, TensorSpec

WIDE = BoundedTensorSpec((2,), torch.float32, np.float32([-2, 0]), np.float32([2, 20]))
FREE = BoundedTensorSpec((1,), torch.float32, np.float32(-np.inf), np.float32(np.inf))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_noise_counts_in_half_ranges_and_stays_within_the_bounds() -> None:
    bounds = ActionBounds(WIDE)
    noise = torch.tensor([[0.5, 0.5], [-1.5, 0.8]])
    assert bounds.disturbed(torch.tensor([[0.0, 5.0], [0.0, 19.0]]), noise).tolist() == [[1.0, 10.0], [-2.0, 20.0]]
    assert ActionBounds(FREE).disturbed(torch.tensor([9.0]), torch.tensor([3.0])).tolist() == [12.0]


def test_gaussian_noise_has_its_deviation_and_no_memory() -> None:
    noise = GaussianNoise({"a": FREE}, stddev=0.3)
    noisy, state = noise({"a": torch.full((20_000, 1), 5.0)}, (), generator(), Progress())
    assert state == ()
    assert noise.state_spec == ()
    assert noisy["a"].mean().item() == pytest.approx(5.0, abs=0.01)
    assert noisy["a"].std().item() == pytest.approx(0.3, abs=0.01)


def test_the_generator_decides() -> None:
    noise = GaussianNoise(WIDE)
    draws = [noise(torch.ones(3, 2), (), generator(seed), Progress())[0] for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_the_deviation_may_follow_a_schedule() -> None:
    noise = GaussianNoise(FREE, stddev=LinearScheduler("iterations", [(0, 1.0), (10, 0.0)]))
    assert noise(torch.zeros(1, 1), (), generator(), Progress(iterations=10))[0].item() == 0
    assert noise(torch.zeros(1, 1), (), generator(), Progress(iterations=5))[0].item() != 0


def test_ou_noise_follows_its_recursion() -> None:
    noise = OUNoise(FREE, stddev=0.2, damping=0.15)
    assert noise.state_spec == TensorSpec((1,))
    state = specs.zeros(noise.state_spec, 4)
    source, same = generator(), generator()
    expected = torch.zeros(4, 1)
    for _ in range(5):
        action, state = noise(torch.ones(4, 1), state, source, Progress())
        expected = 0.85 * expected + 0.2 * torch.empty(4, 1).normal_(generator=same)
        torch.testing.assert_close(state, expected)
        torch.testing.assert_close(action, 1 + expected)


def test_ou_noise_is_correlated_in_time() -> None:
    noise = OUNoise(FREE, stddev=0.2, damping=0.15)
    state, path = specs.zeros(noise.state_spec, 2_000), []
    source = generator()
    for _ in range(60):
        _, state = noise(torch.zeros(2_000, 1), state, source, Progress())
        path.append(state)
    assert path[-1].std().item() == pytest.approx(0.2 / (1 - 0.85**2) ** 0.5, rel=0.1)
    assert torch.corrcoef(torch.stack([path[-2].flatten(), path[-1].flatten()]))[0, 1].item() == pytest.approx(
        0.85, abs=0.05
    )

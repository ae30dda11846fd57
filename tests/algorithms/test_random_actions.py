"""Random actions are uniform over what is allowed."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch

from alfish import specs
from alfish.algorithms.random_actions import RandomActions

OBSERVATION = gym.spaces.Box(-1, 1, (3,))


def draw(action: gym.Space, count: int = 6000) -> torch.Tensor:
    random = RandomActions(specs.from_space(OBSERVATION), specs.from_space(action))
    return random(torch.zeros(count, 3), torch.Generator().manual_seed(0))


def test_discrete_actions_are_uniform_from_their_first_value() -> None:
    counts = torch.bincount(draw(gym.spaces.Discrete(3, start=2)), minlength=5)
    expected = torch.tensor([0, 0, 2000, 2000, 2000])
    chi_square = ((counts - expected).float().square()[2:] / 2000).sum()
    assert counts[:2].sum() == 0
    assert chi_square < 13.8  # the 99.9th percentile for two degrees of freedom


def test_every_dimension_has_its_own_number_of_values() -> None:
    actions = draw(gym.spaces.MultiDiscrete([2, 5]))
    assert actions.shape == (6000, 2)
    assert actions.max(0).values.tolist() == [1, 4]
    assert torch.bincount(actions[:, 1]).min() > 1000


def test_continuous_actions_fill_their_box() -> None:
    actions = draw(gym.spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)))
    assert torch.allclose(actions.mean(0), torch.tensor([0.0, 0.5]), atol=0.05)


def test_nested_actions_and_masks() -> None:
    observation = specs.from_space(
        gym.spaces.Dict({"x": OBSERVATION, "action_mask": gym.spaces.Box(0, 1, (4,), np.int64)})
    )
    random = RandomActions(observation, specs.from_space(gym.spaces.Discrete(4)))
    mask = torch.tensor([[0, 1, 0, 1]]).expand(4000, 4)
    actions = random({"x": torch.zeros(4000, 3), "action_mask": mask}, torch.Generator().manual_seed(0))
    counts = torch.bincount(actions, minlength=4)
    assert counts[[0, 2]].tolist() == [0, 0]
    assert abs(counts[1] - 2000) < 110
    nested = gym.spaces.Dict({"kind": gym.spaces.Discrete(2), "size": gym.spaces.Box(0, 1, (2,))})
    both = RandomActions(specs.from_space(OBSERVATION), specs.from_space(nested))(
        torch.zeros(5, 3), torch.Generator().manual_seed(0)
    )
    assert both["kind"].shape == (5,)
    assert both["size"].shape == (5, 2)

from __future__ import annotations

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from alfish.environments import registration

IDS = [env_id for env_id in gym.registry if env_id.startswith("alfish/")]


def test_all_are_registered() -> None:
    assert registration.__name__
    assert len(IDS) == 12


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("env_id", IDS)
def test_they_are_proper_gymnasium_environments(env_id: str) -> None:
    check_env(gym.make(env_id).unwrapped, skip_render_check=True)

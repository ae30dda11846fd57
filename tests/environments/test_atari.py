from __future__ import annotations

import sys

import pytest
import torch

from alfish.environments.atari import load_atari
from alfish.environments.create import create_environment
from alfish.errors import ConfigError

pytest.importorskip("ale_py")
pytest.importorskip("cv2")


def test_preset() -> None:
    with create_environment("ALE/Pong-v5", load_atari, 2) as env:
        assert env.observation_spec.shape == (4, 84, 84)
        assert env.observation_spec.dtype == torch.uint8
        assert env.action_spec.num_values == 6
        first = env.reset(seed=0)
        assert torch.equal(first.observation[:, 0], first.observation[:, 3])
        again = env.reset(seed=0)
        assert torch.equal(first.observation, again.observation)
        steps = [env.step(torch.tensor([2, 3])) for _ in range(40)]
        assert torch.equal(steps[1].observation[:, 2], steps[0].observation[:, 3])
        assert not torch.equal(steps[-1].observation[0, 3], steps[0].observation[0, 3])


def test_options() -> None:
    env = load_atari(
        "ALE/Breakout-v5",
        max_episode_steps=5,
        frame_stack=1,
        screen_size=42,
        terminal_on_life_loss=True,
        clip_reward=True,
        repeat_action_probability=0.25,
    )
    assert env.observation_space.shape == (1, 42, 42)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(5)] == [False] * 4 + [True]


def test_losing_a_life_ends_the_episode_when_asked() -> None:
    def length(terminal_on_life_loss: bool) -> int:
        env = load_atari("ALE/Breakout-v5", terminal_on_life_loss=terminal_on_life_loss)
        env.reset(seed=0)
        return next(k for k in range(1, 2000) if env.step(1)[2])

    assert length(True) < length(False)


def test_opencv_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from gymnasium.wrappers import atari_preprocessing

    monkeypatch.setattr(atari_preprocessing, "cv2", None, raising=False)
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ConfigError, match=r"pip install 'alfish\[atari\]'"):
        load_atari("ALE/Pong-v5")

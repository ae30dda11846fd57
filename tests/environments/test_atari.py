from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import pytest
import torch

from alfish.environments.atari import load_atari
from alfish.environments.create import create_environment
from alfish.environments.vector import VectorEnvironment
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


@pytest.mark.parametrize("life_loss", [False, True])
def test_the_native_vector_form_shows_and_rewards_the_same(life_loss: bool) -> None:
    def load(env_name: str) -> gym.Env[Any, Any]:
        return load_atari(env_name, noop_max=0, clip_reward=True, terminal_on_life_loss=life_loss)

    generator = torch.Generator().manual_seed(0)
    with (
        create_environment("ALE/Breakout-v5", load, 2, backend="sync") as one,
        create_environment("ALE/Breakout-v5", load, 2, backend="vector") as other,
    ):
        assert isinstance(other, VectorEnvironment)
        assert one.observation_spec.shape == other.observation_spec.shape == (4, 84, 84)
        step, native = one.reset(seed=0), other.reset(seed=0)
        age, num_ends = torch.zeros(2), 0
        for _ in range(250):
            # The pictures before an episode are black in one, and copies of its first in the other.
            for row in range(2):
                known = min(4, int(age[row]) + 1)
                assert torch.equal(step.observation[row, -known:], native.observation[row, -known:])
            for field in ("step_type", "reward", "discount"):
                assert torch.equal(getattr(step, field), getattr(native, field)), field
            num_ends += int(step.is_last().sum())
            action = torch.randint(4, (2,), generator=generator)
            step, native = one.step(action), other.step(action)
            age = torch.where(step.is_first(), 0, age + 1)
        assert num_ends >= 2


def test_the_native_form_is_taken_where_it_can_do_what_is_asked_for() -> None:
    with create_environment("ALE/Pong-v5", load_atari, 2, backend="fastest") as env:
        assert "vector" in env.remark  # it was among those measured
    with create_environment("ALE/Pong-v5", load_atari, 2, backend="fastest", max_episode_steps=50) as env:
        assert not isinstance(env, VectorEnvironment)
    with create_environment("ALE/Pong-v5", load_atari, 1, backend="fastest", render_mode="rgb_array") as env:
        env.reset(seed=0)
        assert env.render() is not None
    with pytest.raises(ConfigError, match=r"@load_atari, without max_episode_steps and render_mode, has the form"):
        create_environment("ALE/Pong-v5", load_atari, 1, backend="vector", max_episode_steps=50)


def test_the_options_reach_the_native_form() -> None:
    def load(env_name: str) -> gym.Env[Any, Any]:
        return load_atari(env_name, frame_stack=2, screen_size=42, frame_skip=2, noop_max=5, clip_reward=False)

    with (
        create_environment("ALE/Breakout-v5", load, 1, backend="sync") as one,
        create_environment("ALE/Breakout-v5", load, 1, backend="vector") as other,
    ):
        assert one.observation_spec.shape == other.observation_spec.shape == (2, 42, 42)
    assert load("ALE/Breakout-v5").get_wrapper_attr("vector_options") == {
        "noop_max": 5,
        "frameskip": 2,
        "img_height": 42,
        "img_width": 42,
        "stack_num": 2,
        "episodic_life": False,
        "reward_clipping": False,
        "repeat_action_probability": 0.0,
        "use_fire_reset": False,
    }

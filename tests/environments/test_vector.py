from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish.environments.create import create_environment
from alfish.environments.vector import VectorEnvironment, make_native
from alfish.errors import ConfigError, EnvironmentFault


class ScriptedVector:
    """Two environments; what each call of `step` returns is given."""

    num_envs = 2
    render_mode: str | None = None
    single_observation_space: gym.Space[Any] = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    single_action_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, ends: list[tuple[list[bool], list[bool]]]) -> None:
        self._ends = ends
        self._count = 0
        self._buffer = np.zeros((2, 1))
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        return self._buffer, {}

    def step(self, actions: Any) -> Any:
        self.actions.append(actions.tolist())
        terminated, truncated = self._ends[self._count]
        self._count += 1
        self._buffer += 1
        return self._buffer, np.full(2, 5.0), np.array(terminated), np.array(truncated), {}

    def render(self) -> Any:
        raise AssertionError("nothing to render")

    def close(self) -> None:
        pass


def test_stream_of_a_vector_environment() -> None:
    no = [False, False]
    vector = ScriptedVector([(no, no), ([True, False], no), (no, [False, True]), (no, no)])
    env = VectorEnvironment(vector, "scripted")
    action = torch.tensor([[0.5], [3.0]])
    steps = [env.reset(seed=0), *(env.step(action) for _ in range(4))]
    assert [step.step_type.tolist() for step in steps] == [[0, 0], [1, 1], [2, 1], [0, 2], [1, 0]]
    assert [step.reward.tolist() for step in steps] == [[0, 0], [5, 5], [5, 5], [0, 5], [5, 0]]
    assert [step.discount.tolist() for step in steps] == [[1, 1], [1, 1], [0, 1], [1, 1], [1, 1]]
    assert [step.prev_action[:, 0].tolist() for step in steps] == [[0, 0], [0.5, 3], [0.5, 3], [0, 3], [0.5, 0]]
    # Its buffer is used again, ours is not.
    assert [step.observation[:, 0].tolist() for step in steps] == [[k, k] for k in range(5)]
    assert steps[0].observation.dtype == torch.float32
    assert vector.actions[0] == [[0.5], [1.0]]
    assert not env.exact_resume
    assert env.render() is None


@pytest.mark.parametrize("place", ["observation", "reward"])
def test_what_is_not_finite_is_named(place: str) -> None:
    class Broken(ScriptedVector):
        def step(self, actions: Any) -> Any:
            observation, reward, *rest = super().step(actions)
            (observation if place == "observation" else reward)[1] = np.nan
            return observation, reward, *rest

    no = [False, False]
    env = VectorEnvironment(Broken([(no, no)]), "scripted")
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match=rf"scripted: environment 1 returned an? {place} that is not finite"):
        env.step(torch.zeros(2, 1))


def test_native_cartpole_runs_like_the_single_one() -> None:
    env = create_environment("CartPole-v1", num_parallel_environments=4, backend="vector", max_episode_steps=30)
    assert isinstance(env, VectorEnvironment)
    single: Any = gym.make("CartPole-v1").unwrapped
    step = env.reset(seed=1)
    again = env.reset(seed=1)
    assert torch.equal(step.observation, again.observation)
    generator = torch.Generator().manual_seed(0)
    ends = {0.0: 0, 1.0: 0}
    for _ in range(400):
        action = torch.randint(0, 2, (4,), generator=generator)
        after = env.step(action)
        row = 2
        if step.step_type[row] == 2:
            assert after.step_type[row] == 0
            assert after.reward[row] == 0
        else:
            single.reset(seed=0)
            single.state = step.observation[row].double().numpy()
            observation, reward, terminated, _, _ = single.step(int(action[row]))
            np.testing.assert_allclose(after.observation[row], observation, rtol=1e-4, atol=1e-6)
            assert after.reward[row] == reward
            assert after.discount[row] == (not terminated)
        for is_last, discount in zip(after.is_last(), after.discount, strict=True):
            if is_last:
                ends[float(discount)] += 1
        step = after
    assert ends[0.0] > 10
    assert ends[1.0] > 0


def test_other_reset_modes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

    monkeypatch.setitem(CartPoleVectorEnv.metadata, "autoreset_mode", gym.vector.AutoresetMode.SAME_STEP)
    with pytest.raises(ConfigError, match="alfish needs NEXT_STEP"):
        make_native("CartPole-v1", 2, {})


def test_what_the_environment_raises_is_a_fault() -> None:
    env = VectorEnvironment(ScriptedVector([]), "scripted")
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="scripted: the environments raised IndexError in a step"):
        env.step(torch.zeros(2, 1))

"""Wrappers of single environments, for `create_environment.wrappers=[@MaskVelocity, @FrameStack]`.

They are applied in the order of the list, so the last one is the outermost. Any callable that takes an environment
and returns one will do: those of `gymnasium.wrappers`, or your own `@alfish.configurable`. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import gymnasium as gym
import numpy as np

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError

Env = gym.Env[Any, Any]

# Which elements of the observation are velocities.
_VELOCITIES = {
    "CartPole": (1, 3),
    "Pendulum": (2,),
    "MountainCar": (1,),
    "MountainCarContinuous": (1,),
    "Acrobot": (4, 5),
    "LunarLander": (2, 3, 5),
    "LunarLanderContinuous": (2, 3, 5),
}


@configurable
class MaskVelocity(gym.ObservationWrapper[Any, Any, Any]):
    """Sets velocities to 0, so that one observation no longer tells the state and a memory is needed.

    Knows CartPole, Pendulum, MountainCar, Acrobot and LunarLander; give `indices` for others.
    """

    def __init__(self, env: Env, indices: Sequence[int] | None = None) -> None:
        """
        Args:
            env: with a flat observation.
            indices: the elements to set to 0; None: the velocities of a known environment.
        """
        super().__init__(env)
        if indices is None:
            name = env.spec.name if env.spec is not None else type(env.unwrapped).__name__
            if name not in _VELOCITIES:
                raise ConfigError(
                    f"MaskVelocity does not know where the velocities of {name} are (it knows "
                    f"{', '.join(_VELOCITIES)}). Set MaskVelocity.indices."
                )
            indices = _VELOCITIES[name]
        self._indices = list(indices)

    def observation(self, observation: Any) -> Any:
        masked = np.array(observation)
        masked[self._indices] = 0
        return masked


@configurable
def TimeLimit(env: Env, max_episode_steps: Annotated[int, Range(min=1)] = 1000) -> Env:
    """Cuts episodes off: LAST with discount 1, which bootstraps. Gymnasium's `TimeLimit`.

    Args:
        env: the environment.
        max_episode_steps: length of an episode in steps.
    """
    return gym.wrappers.TimeLimit(env, max_episode_steps)


@configurable
class FrameSkip(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats every action and sums the rewards; the observation is the last one."""

    def __init__(self, env: Env, skip: Annotated[int, Range(min=1)] = 4) -> None:
        """
        Args:
            env: the environment.
            skip: how often an action is taken.
        """
        super().__init__(env)
        self._skip = skip

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, total, terminated, truncated, info = self.env.step(action)
        for _ in range(self._skip - 1):
            if terminated or truncated:
                break
            observation, reward, terminated, truncated, info = self.env.step(action)
            total = total + reward  # type: ignore[operator]
        return observation, total, terminated, truncated, info


@configurable
def FrameStack(env: Env, stack_size: Annotated[int, Range(min=1)] = 4) -> Env:
    """The last observations along a new first axis; an episode starts with copies of its first one.

    Args:
        env: the environment.
        stack_size: number of observations.
    """
    return gym.wrappers.FrameStackObservation(env, stack_size)


@configurable
class ImageChannelFirst(gym.ObservationWrapper[Any, Any, Any]):
    """Pictures from `[H, W, C]` to `[C, H, W]`, as convolutions want them."""

    def __init__(self, env: Env) -> None:
        """
        Args:
            env: whose observation is a picture.
        """
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 3:
            raise ConfigError(f"ImageChannelFirst needs a picture [H, W, C] as observation, not {space}")
        low, high = np.moveaxis(space.low, -1, 0), np.moveaxis(space.high, -1, 0)
        self.observation_space = gym.spaces.Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: Any) -> Any:
        return np.moveaxis(observation, -1, 0)


@configurable
class ActionMaskInObservation(gym.Wrapper[Any, Any, Any, Any]):
    """Moves `info["action_mask"]` (as Taxi and many board games give it) to where policies look for it.

    The observation becomes `{"observation": ..., "action_mask": ...}`; 1 marks an action that may be taken.
    """

    def __init__(self, env: Env) -> None:
        """
        Args:
            env: with a Discrete action space.
        """
        super().__init__(env)
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise ConfigError(f"ActionMaskInObservation needs a Discrete action space, not {env.action_space}")
        mask = gym.spaces.MultiBinary(int(env.action_space.n))
        self.observation_space = gym.spaces.Dict({"observation": env.observation_space, "action_mask": mask})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return {"observation": observation, "action_mask": info["action_mask"]}, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        both = {"observation": observation, "action_mask": info["action_mask"]}
        return both, reward, terminated, truncated, info

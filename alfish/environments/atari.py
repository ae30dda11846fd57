"""The Atari preset. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments.loading import load_gymnasium
from alfish.errors import ConfigError


class Prepared(gym.Wrapper[Any, Any, Any, Any]):
    """A game as `load_atari` makes it.

    Args:
        env: the game.
        vector_options: arguments of the game's native vector form that make it the same.
    """

    def __init__(self, env: gym.Env[Any, Any], vector_options: dict[str, Any]) -> None:
        super().__init__(env)
        self.vector_options = vector_options


@configurable
def load_atari(
    env_name: str,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    noop_max: Annotated[int, Range(min=0)] = 30,
    frame_skip: Annotated[int, Range(min=1)] = 4,
    screen_size: Annotated[int, Range(min=1)] = 84,
    frame_stack: Annotated[int, Range(min=1)] = 4,
    terminal_on_life_loss: bool = False,
    clip_reward: bool = False,
    repeat_action_probability: Annotated[float, Range(min=0, max=1)] = 0.0,
) -> gym.Env[Any, Any]:
    """An Atari game, prepared as in the DQN paper: `create_environment.env_load_fn=@load_atari`.

    Observations are `[frame_stack, screen_size, screen_size]` grey pictures of uint8. With the backends 'vector' and
    'fastest' ale-py does all of that itself, in threads, for twice the speed: the same pictures, but an episode begins
    with black ones in place of copies of the first. It has neither `max_episode_steps` nor `render_mode`.

    Args:
        env_name: an id of ale-py such as 'ALE/Pong-v5'.
        max_episode_steps: time limit in agent's steps; None: the game's own 108 000 frames.
        render_mode: 'rgb_array' or 'human'.
        noop_max: an episode starts with 1 to this many actions that do nothing.
        frame_skip: frames per action; the last two are merged against flicker.
        screen_size: height and width of the picture.
        frame_stack: number of pictures in an observation.
        terminal_on_life_loss: end the episode with a life; the next one starts a new game.
        clip_reward: clip rewards to [-1, 1]. Returns are then clipped as well; the RewardClipping transformer
            keeps the game's score in the metrics.
        repeat_action_probability: of the game ignoring an action ("sticky actions"); 0.25 is Machado et al. 2018.
    """
    game = {"obs_type": "grayscale", "frameskip": 1, "repeat_action_probability": repeat_action_probability}
    env = load_gymnasium(env_name, max_episode_steps=-1, render_mode=render_mode, env_kwargs=game)
    try:
        env = gym.wrappers.AtariPreprocessing(
            env,
            noop_max=noop_max,
            frame_skip=frame_skip,
            screen_size=screen_size,
            terminal_on_life_loss=terminal_on_life_loss,
        )
    except gym.error.DependencyNotInstalled as error:
        raise ConfigError(f"load_atari: {error}\nInstall it with: pip install 'alfish[atari]'") from error
    if clip_reward:
        env = gym.wrappers.ClipReward(env, -1.0, 1.0)
    env = gym.wrappers.FrameStackObservation(env, frame_stack)
    if max_episode_steps not in (None, -1):
        return gym.wrappers.TimeLimit(env, int(max_episode_steps or 0))
    if render_mode is not None:
        return env
    vector_options = {
        "noop_max": noop_max,
        "frameskip": frame_skip,
        "img_height": screen_size,
        "img_width": screen_size,
        "stack_num": frame_stack,
        "episodic_life": terminal_on_life_loss,
        "reward_clipping": clip_reward,
        "repeat_action_probability": repeat_action_probability,
        "use_fire_reset": False,
    }
    return Prepared(env, vector_options)

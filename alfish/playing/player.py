"""Watching a trained agent: from its run folder to pictures and returns."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from alfish import nest, specs
from alfish.algorithms.explanation import Explanation
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.config.gin_state import scope
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.errors import AlfishError, ConfigError, EnvironmentFault
from alfish.playing.overlay import Frame
from alfish.playing.panel import Panel, make_panel
from alfish.playing.screen import Screen
from alfish.playing.window import has_display
from alfish.seeding import Seeds
from alfish.summary.reward_reduction import RewardReduction
from alfish.training.evaluation import is_supervised
from alfish.training.evaluator import Evaluator, create_eval_environment
from alfish.training.restored_run import RestoredRun
from alfish.types import Nest, TimeStep

_PICTURES = "rgb_array"


@dataclass(frozen=True)
class PlayOptions:
    """How to play.

    Args:
        num_episodes: how many; with several environments equally many in each, so it may become a few more.
        num_environments: to play in at once; pictures are made of one only.
        checkpoint: 'latest', 'best', or an iteration.
        seed: root of the episodes' seeds; None: the run's own.
        epsilon_greedy: chance of a sampled action in place of the best one; None: as the run was configured.
        render: make pictures.
        record_file: film to write them to; None: show them in a window.
        fps: pictures per second.
        overlay: draw beside each picture what the algorithm thinks.
    """

    num_episodes: int = 3
    num_environments: int = 1
    checkpoint: str = "latest"
    seed: int | None = None
    epsilon_greedy: float | None = None
    render: bool = True
    record_file: Path | None = None
    fps: float = 30.0
    overlay: bool = True

    def check(self) -> None:
        """Raises `ConfigError` for what cannot go together, or not here."""
        if self.num_environments > 1 and self.record_file is not None:
            raise ConfigError(
                f"--num_parallel_environments={self.num_environments} with --record_file: pictures are made of one "
                "environment only. Leave one of them out"
            )
        if self.record_file is not None and not self.render:
            raise ConfigError("--record_file with --norender: there is nothing to record. Leave one of them out")
        if self.makes_pictures and self.record_file is None and not has_display():
            raise ConfigError(
                "there is no display to open a window on. Record a film with --record_file=play.mp4, or use --norender "
                "for the returns alone"
            )

    def open_run(self, root_dir: Path) -> RestoredRun:
        chance = self.epsilon_greedy
        bindings = [] if chance is None else [f"TrainerConfig.epsilon_greedy={chance}"]
        return RestoredRun.open(root_dir, self.checkpoint, self.seed, bindings)

    @property
    def makes_pictures(self) -> bool:
        return self.render and self.num_environments == 1


@dataclass(frozen=True)
class PlayResult:
    """The episodes that were played."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    checkpoint: int  # its iteration
    num_frames: int = 0  # of the film


def play_run(root_dir: Path, options: PlayOptions, say: Callable[[str], None]) -> PlayResult:
    """Plays with a checkpoint of a run; everything comes from the run folder.

    Args:
        root_dir: the run folder.
        options: how to play.
        say: is told the result of every episode.
    """
    if is_supervised(root_dir):
        raise ConfigError(
            f"{root_dir} learned from data (TrainerConfig.ml_type = 'sl'): there is nothing to play. "
            f"`python -m alfish.evaluate --root_dir={root_dir}` says how good it is"
        )
    options.check()
    if not options.makes_pictures:
        return _play_unseen(root_dir, options, say)
    # What can go wrong with pictures shall go wrong before anything is loaded.
    with Screen(f"alfish: {root_dir}", options.record_file, options.fps, options.overlay) as screen:
        run = options.open_run(root_dir)
        with _environment_with_pictures() as env:
            played = Played(RewardReduction(run.config.reward_reduction, env.reward_spec.shape))
            algorithm = run.build_algorithm(env)
            with closing(_moments(algorithm, env, run.seeds.child("eval"))) as moments:
                while len(played.returns) < options.num_episodes and not screen.is_closed:
                    moment = next(moments)
                    panel = played.add(moment, env)
                    screen.show(_picture(env), panel)
                    if moment.is_last:
                        say(_words(len(played.returns), played.returns[-1], played.lengths[-1]))
        return PlayResult(tuple(played.returns), tuple(played.lengths), run.checkpoint.iteration, screen.num_frames)


def _play_unseen(root_dir: Path, options: PlayOptions, say: Callable[[str], None]) -> PlayResult:
    run = options.open_run(root_dir)
    with create_eval_environment(options.num_environments) as env:
        evaluator = Evaluator(env, run.seeds.child("eval"), run.config.reward_reduction)
        returns, lengths = evaluator.evaluate(run.build_algorithm(env), options.num_episodes)
    for number, (total, length) in enumerate(zip(returns, lengths, strict=True), start=1):
        say(_words(number, total, length))
    return PlayResult(returns, lengths, run.checkpoint.iteration)


@dataclass(frozen=True)
class Moment:
    """A time step of one environment and what the agent makes of it; no batch dimension."""

    reward: float | npt.NDArray[np.float64]  # a vector reward is `[R]`
    is_first: bool
    is_last: bool
    action: Nest
    explanation: Explanation


class Played:
    """Counts steps and rewards of episodes, moment by moment.

    Args:
        reduction: makes one number of a vector reward.
    """

    def __init__(self, reduction: RewardReduction | None = None) -> None:
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self._reduction = reduction or RewardReduction()
        self._total, self._length = np.zeros(()), 0

    def add(self, moment: Moment, env: Environment) -> Panel:
        """Counts a moment; returns what to show of it."""
        reward = np.asarray(moment.reward, np.float64)
        if moment.is_first:
            self._total, self._length = np.zeros_like(reward), 0
        else:
            self._total, self._length = self._total + reward, self._length + 1
        newest, total = (float(self._reduction(values[None])[0]) for values in (reward, self._total))
        if moment.is_last:
            self.returns.append(total)
            self.lengths.append(self._length)
        return make_panel(self._length, newest, total, moment.action, env.action_spec, moment.explanation)


def _moments(algorithm: RLAlgorithm, env: Environment, seeds: Seeds) -> Generator[Moment]:
    """Plays on and on; the same episodes as an `Evaluator` with these seeds."""
    device = next(algorithm.parameters()).device
    transformer = algorithm.data_transformer
    with algorithm.evaluating(seeds.torch("action", device=device)):
        time_step = env.reset(seed=seeds.integer("env"))
        state: Nest = specs.zeros(algorithm.predict_state_spec, env.batch_size, device=device)
        transformer_state: Nest = specs.zeros(transformer.state_spec, env.batch_size, device=device)
        while True:
            inputs = nest.to_device(time_step, device)
            inputs, transformer_state = transformer.transform_timestep(inputs, transformer_state)
            state = nest.zero_where(inputs.is_first(), state)
            step = algorithm.predict_step(inputs, state)
            explanation = algorithm.explain_step(inputs, state, step.output)
            yield _moment(time_step, step.output, explanation)
            state = step.state
            time_step = env.step(nest.to_device(step.output, "cpu"))


def _moment(time_step: TimeStep, action: Nest, explanation: Explanation) -> Moment:
    action, explanation = nest.to_device(nest.index((action, explanation), 0), "cpu")
    is_last = bool(time_step.is_last()[0])
    return Moment(
        reward=time_step.reward[0].double().cpu().numpy(),
        is_first=bool(time_step.is_first()[0]),
        is_last=is_last,
        action=action,
        explanation=explanation,
    )


def _environment_with_pictures() -> Environment:
    with scope("eval"):
        try:
            return create_environment(num_parallel_environments=1, render_mode=_PICTURES)
        except Exception as error:  # of alfish, of the environment, or of what it draws with
            with create_environment(num_parallel_environments=1) as env:  # so it is the pictures that cannot be had
                raise _no_pictures(env.name, error) from error


def _picture(env: Environment) -> Frame:
    try:
        frame = env.render()
    except Exception as error:
        raise _no_pictures(env.name, error) from error
    if frame is None:
        raise _no_pictures(env.name, None)
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        raise EnvironmentFault(
            f"{env.name} renders {frame.dtype} of shape {frame.shape}; a picture is uint8 of shape (height, width, 3)"
        )
    return frame


def _no_pictures(name: str, error: Exception | None) -> AlfishError:
    instead = "Use --norender for the returns alone"
    if isinstance(error, gym.error.DependencyNotInstalled):
        return ConfigError(f"{name} cannot be drawn: {error}\nInstall it with: pip install 'alfish[video]'")
    if error is None or isinstance(error, ConfigError | NotImplementedError):
        return ConfigError(f"{name} makes no pictures: it has no render_mode {_PICTURES!r}. {instead}")
    cause = str(error) if isinstance(error, AlfishError) else f"{type(error).__name__}: {error}"
    return EnvironmentFault(f"{name} cannot be drawn: {cause}\n{instead}")


def _words(number: int, total: float, length: int) -> str:
    return f"episode {number}: return {total:.2f}, length {length}"

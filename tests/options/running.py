"""Runs as a user starts them: the text of a config and bindings of the command line in, what a test looks at out.

    run = train(DQN, "TrainerConfig.hooks = [@MyHook()]", unroll_length=2.5, num_iterations=4)
    assert run.per_iteration("env_steps") == [8, 12, 8, 12]

A preset is a whole config of a run of four iterations that takes a few hundredths of a second. The text is a second
file, which wins over the preset; keywords are `TrainerConfig.<option>=<value>` on the command line, and win over both.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import alfish
from alfish.config.record import Config
from alfish.errors import AlfishError
from alfish.progress import Progress
from alfish.training.hooks import Hooks
from alfish.training.results import TrainResult
from alfish.training.trainer import Trainer

# Episodes of 5 steps: the best action is the observation. With unrolls of 5 steps, episodes end inside them.
_BASE = """
create_environment.env_name = "alfish/PolicyUnittest-v0"
create_environment.num_parallel_environments = 4
TrainerConfig.random_seed = 1
TrainerConfig.num_iterations = 4
TrainerConfig.unroll_length = 5
TrainerConfig.num_checkpoints = 0
Adam.lr = 0.01
"""
PPO = f"""{_BASE}
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_updates_per_train_iter = 1
PPOAlgorithm.optimizer = @Adam()
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
A2C = f"""{_BASE}
TrainerConfig.algorithm_ctor = @ActorCriticAlgorithm
ActorCriticAlgorithm.optimizer = @Adam()
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
DQN = f"""{_BASE}
TrainerConfig.algorithm_ctor = @DqnAlgorithm
TrainerConfig.num_updates_per_train_iter = 1
TrainerConfig.whole_replay_buffer_training = False
TrainerConfig.clear_replay_buffer = False
TrainerConfig.mini_batch_size = 8
DqnAlgorithm.optimizer = @Adam()
DqnAlgorithm.q_network_ctor = @QNetwork
QNetwork.fc_layer_params = (4,)
"""
SAC = f"""{_BASE}
PolicyUnittestEnv.action_type = "continuous"
TrainerConfig.algorithm_ctor = @SacAlgorithm
TrainerConfig.num_updates_per_train_iter = 1
TrainerConfig.whole_replay_buffer_training = False
TrainerConfig.clear_replay_buffer = False
TrainerConfig.mini_batch_size = 8
SacAlgorithm.optimizer = @Adam()
SacAlgorithm.actor_network_ctor = @ActorDistributionNetwork
SacAlgorithm.critic_network_ctor = @CriticNetwork
ActorDistributionNetwork.fc_layer_params = (4,)
ActorDistributionNetwork.continuous_projection_net_ctor = @StableNormalProjectionNetwork
"""

# Texts to go with them
ENDLESS = """
create_environment.env_name = "alfish/ConstantRewardProbe-v0"
ConstantRewardProbe.episode_length = 1_000_000
"""
CARTPOLE = 'create_environment.env_name = "CartPole-v1"\n'
EVALUATE = """
TrainerConfig.evaluate = True
TrainerConfig.async_eval = False
TrainerConfig.eval_interval = 1
TrainerConfig.num_eval_episodes = 1
"""


@dataclass(frozen=True)
class Counts:
    """How far a run is."""

    iterations: int
    env_steps: int
    updates: int
    episodes: int

    @classmethod
    def of(cls, progress: Progress) -> Counts:
        return cls(progress.iterations, progress.env_steps, progress.updates, progress.episodes)


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    trainer: Trainer
    result: TrainResult
    start: Counts
    history: tuple[Counts, ...]  # after every iteration
    console: str  # all that was printed and logged

    @property
    def folder(self) -> Path:
        return self.trainer.folder.path

    @property
    def weights(self) -> torch.Tensor:
        return weights(self.trainer)

    @property
    def checkpoints(self) -> list[int]:
        """The iterations that have a checkpoint."""
        names = (path.name for path in (self.folder / "checkpoints").iterdir())
        return sorted(int(name) for name in names if name.isdigit())

    def per_iteration(self, name: str) -> list[int]:
        """How much a counter of `Counts` grew in every iteration."""
        totals = [getattr(counts, name) for counts in (self.start, *self.history)]
        return [after - before for before, after in pairwise(totals)]

    def scalars(self, tag: str, of: str = "train") -> dict[int, float]:
        """What TensorBoard shows for a tag, by step; empty when it does not know the tag."""
        return scalars(self.folder / of, tag)

    def tags(self, of: str = "train") -> set[str]:
        """The tags of all scalars and histograms."""
        known = events(self.folder / of).Tags()
        return {*known["scalars"], *known["histograms"]}


def load(preset: str, text: str = "", *bindings: str, **options: Any) -> Config:
    """Writes the two files into the working folder and loads them with the command line."""
    Path("preset.gin").write_text(preset)
    Path("text.gin").write_text(text or "# nothing more\n")
    line = [f"TrainerConfig.{name}={value!r}" for name, value in options.items()]
    return alfish.load_config(["preset.gin", "text.gin"], [*bindings, *line])


def make(preset: str, text: str = "", *bindings: str, root_dir: str | None = "run", **options: Any) -> Trainer:
    """A trainer that has not begun."""
    load(preset, text, *bindings, **options)
    return Trainer(root_dir=root_dir)


def train(
    preset: str,
    text: str = "",
    *bindings: str,
    root_dir: str | None = "run",
    prepare: Callable[[Trainer], None] = lambda trainer: None,
    each: Callable[[Trainer], None] = lambda trainer: None,
    **options: Any,
) -> Run:
    """A whole run.

    Args:
        preset: a config, such as `PPO`.
        text: lines that win over it.
        bindings: `Name.argument=value`, as on the command line.
        root_dir: the run folder, that of an earlier run goes on with it; None: what the options say.
        prepare: called before the first iteration, to put something in between.
        each: called after every iteration.
        options: of `TrainerConfig`, as on the command line.
    """
    with listening() as heard:
        trainer = make(preset, text, *bindings, root_dir=root_dir, **options)
        prepare(trainer)
        start, history = Counts.of(trainer.progress), []

        def note(context: Any) -> None:
            history.append(Counts.of(trainer.progress))
            each(trainer)

        hooks = [*trainer.config.hooks, SimpleNamespace(on_iteration_end=note)]
        trainer.hooks = Hooks(hooks, trainer.algorithm, trainer.config, trainer.progress)
        result = trainer.train()
    return Run(trainer, result, start, tuple(history), heard.getvalue())


def refusal(preset: str, text: str = "", *bindings: str, **options: Any) -> str:
    """What is said when such a run is refused at its start."""
    with pytest.raises(AlfishError) as caught:
        make(preset, text, *bindings, **options).close()
    return str(caught.value)


@contextmanager
def listening() -> Iterator[io.StringIO]:
    """What is printed to stderr, and logged by alfish, inside the block."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    log = logging.getLogger("alfish")
    log.addHandler(handler)
    try:
        with redirect_stderr(heard):
            yield heard
    finally:
        log.removeHandler(handler)


def weights(trainer: Any) -> torch.Tensor:
    """A copy of all parameters; `trainer` may be the context of a hook as well."""
    return torch.nn.utils.parameters_to_vector(trainer.algorithm.parameters()).detach().clone()


def events(folder: str | Path) -> EventAccumulator:
    """The event file of a folder such as `run/train`."""
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()


def scalars(folder: str | Path, tag: str) -> dict[int, float]:
    """The values of a tag in the event file of a folder, by step; empty when there is no such tag."""
    found = events(folder)
    return {event.step: event.value for event in found.Scalars(tag)} if tag in found.Tags()["scalars"] else {}

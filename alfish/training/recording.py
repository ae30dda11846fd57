"""Recording episodes of a policy, for datasets."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import torch

from alfish import nest, specs
from alfish.algorithms.random_actions import RandomActions
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.config.loading import load
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.replay.tape import Tape, join
from alfish.seeding import Seeds
from alfish.training.dataset import write_dataset
from alfish.training.restored_run import RestoredRun
from alfish.types import Experience, Nest, TimeStep, replace

_MOST_ENVIRONMENTS = 16


def collect_dataset(
    source: str,
    out: Path,
    amount: Amount,
    random: float = 0.0,
    which: str = "latest",
    num_environments: int | None = None,
    seed: int | None = None,
) -> Tape:
    """Records episodes and writes them to the dataset folder `out`.

    Args:
        source: a run folder, whose policy acts in the environments it was trained in; or, when all actions are
            random, the name of a config.
        out: the folder to make.
        amount: how much.
        random: the chance of a uniform random action at every step.
        which: checkpoint of the run: 'latest', 'best', or an iteration.
        num_environments: to play in; None: as many as can share the amount evenly, up to 16.
        seed: root of the random streams; None: the run's own, or 0.
    """
    if out.exists():
        raise ConfigError(f"{out} exists already; choose another folder, or remove it")
    run: RestoredRun | None = None
    if (Path(source) / "config.gin").is_file() or random < 1:
        run = RestoredRun.open(Path(source), which, seed)
    else:
        load([source])
    seeds = (run.seeds if run else Seeds(seed or 0)).child("collect")
    with create_environment(num_parallel_environments=num_environments or amount.num_environments()) as env:
        algorithm = run.build_algorithm(env) if run and random < 1 else None
        tape = record(env, Policy(env, algorithm, random, seeds), amount, seeds.integer("env"))
        about: dict[str, Any] = {"source": source, "random": random}
        if run:
            about["checkpoint"] = run.checkpoint.iteration
        write_dataset(out, tape, env, about)
    return tape


@dataclass(frozen=True)
class Amount:
    """How much to record: episodes, or steps."""

    num_episodes: int | None = None
    num_steps: int | None = None

    def num_environments(self) -> int:
        """Of at most 16 the most that can share it evenly."""
        total = self.num_episodes or self.num_steps or 1
        return max(number for number in range(1, _MOST_ENVIRONMENTS + 1) if total % number == 0)


class Policy:
    """Acts as in evaluation, and at random from time to time.

    Args:
        env: to act in.
        algorithm: decides; None only when everything is random.
        random: the chance of a uniform random action, of every environment at every step.
        seeds: of the recording.
    """

    def __init__(self, env: Environment, algorithm: RLAlgorithm | None, random: float, seeds: Seeds) -> None:
        self._algorithm = algorithm
        self._random = random
        self._device = next(algorithm.parameters()).device if algorithm else torch.device("cpu")
        self._generator = seeds.torch("action", device=self._device)
        self._dice = seeds.torch("random_action")
        self._random_actions = RandomActions(env.observation_spec, env.action_spec)
        if algorithm is not None:
            self._state: Nest = specs.zeros(algorithm.predict_state_spec, env.batch_size, device=self._device)
            transformer = algorithm.data_transformer
            self._transformer_state: Nest = specs.zeros(transformer.state_spec, env.batch_size, device=self._device)

    def __call__(self, time_step: TimeStep) -> Nest:
        """Actions `[B, ...]`."""
        at_random = self._random_actions(time_step.observation, self._dice)
        if self._algorithm is None:
            return at_random
        with self._algorithm.evaluating(self._generator):
            inputs = nest.to_device(time_step, self._device)
            transform = self._algorithm.data_transformer.transform_timestep
            inputs, self._transformer_state = transform(inputs, self._transformer_state)
            step = self._algorithm.predict_step(inputs, nest.zero_where(inputs.is_first(), self._state))
            self._state = step.state
        is_random = torch.rand(len(time_step.step_type), generator=self._dice) < self._random
        return nest.where(is_random, at_random, nest.to_device(step.output, "cpu"))


def record(env: Environment, policy: Policy, amount: Amount, seed: int) -> Tape:
    """Plays from the beginning of episodes on; every environment contributes equally many episodes or steps.

    Episodes are whole when they are counted; when steps are, the last ones end as at a time limit.
    """
    quota = ceil((amount.num_episodes or amount.num_steps or 1) / env.batch_size)
    time_step = env.reset(seed=seed)
    time_steps, actions = [time_step], []
    done = torch.zeros(env.batch_size, dtype=torch.int64)
    lengths = torch.zeros(env.batch_size, dtype=torch.int64)  # rows that belong to the recording
    while (done < quota).any():
        action = policy(time_step)
        time_step = env.step(action)
        time_steps.append(time_step)
        actions.append(nest.map(lambda leaf: leaf.clone(), action))
        lengths[done < quota] = len(actions)
        done += time_step.is_last() if amount.num_episodes else ~time_step.is_first()
    columns = Experience(
        nest.stack([replace(each, prev_action=(), env_info=()) for each in time_steps]), nest.stack(actions)
    )
    tapes = [nest.index(Tape.of(columns, env_id), slice(None, int(lengths[env_id]) + 1)) for env_id in range(len(done))]
    joined = join(tapes)
    assert joined is not None
    return joined

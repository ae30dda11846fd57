"""Evaluation: how well does the policy do, on environments and seeds of its own."""

from __future__ import annotations

from math import ceil

import torch

from alfish import nest, specs
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.config.gin_state import scope
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.seeding import Seeds
from alfish.types import Nest


def create_eval_environment(num_environments: int) -> Environment:
    """Environments to evaluate in: bindings in the scope `eval/` hold for them, and only for them."""
    with scope("eval"):
        return create_environment(num_parallel_environments=num_environments)


class Evaluator:
    """Plays whole episodes with `predict_step`.

    Every call plays the same episodes: equal parameters give equal returns, and evaluations of one run can be
    compared.
    """

    def __init__(self, env: Environment, seeds: Seeds) -> None:
        self.env = env
        self._seeds = seeds

    def evaluate(self, algorithm: RLAlgorithm, num_episodes: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Returns and lengths of the first ceil(N / E) episodes of each of the E environments; -1: one of each.

        Taking equally many from each keeps short episodes from being over-counted.
        """
        env = self.env
        quota = 1 if num_episodes == -1 else ceil(num_episodes / env.batch_size)
        device = next(algorithm.parameters()).device
        episodes = _Episodes(env.batch_size, quota)
        with algorithm.evaluating(self._seeds.torch("action", device=device)):
            time_step = env.reset(seed=self._seeds.integer("env"))
            state: Nest = specs.zeros(algorithm.predict_state_spec, env.batch_size, device=device)
            transformer = algorithm.data_transformer
            transformer_state: Nest = specs.zeros(transformer.state_spec, env.batch_size, device=device)
            while not episodes.complete:
                inputs = nest.to_device(time_step, device)
                inputs, transformer_state = transformer.transform_timestep(inputs, transformer_state)
                state = nest.zero_where(inputs.is_first(), state)
                step = algorithm.predict_step(inputs, state)
                state = step.state
                time_step = env.step(nest.to_device(step.output, "cpu"))
                episodes.observe(time_step.reward, time_step.is_first(), time_step.is_last())
        return episodes.results()


class _Episodes:
    """Returns and lengths of the first `quota` episodes of each environment; a vector reward is summed."""

    def __init__(self, batch_size: int, quota: int) -> None:
        self._quota = quota
        self._return = torch.zeros(batch_size, dtype=torch.float64)
        self._length = torch.zeros(batch_size, dtype=torch.int64)
        self._done: list[list[tuple[float, int]]] = [[] for _ in range(batch_size)]

    @property
    def complete(self) -> bool:
        return all(len(done) >= self._quota for done in self._done)

    def observe(self, reward: torch.Tensor, is_first: torch.Tensor, is_last: torch.Tensor) -> None:
        reward = reward.double()
        self._return += reward if reward.dim() == 1 else reward.sum(-1)
        self._length += 1
        self._return[is_first] = 0
        self._length[is_first] = 0
        for index in is_last.nonzero().flatten().tolist():
            self._done[index].append((self._return[index].item(), int(self._length[index])))

    def results(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        kept = [episode for done in self._done for episode in done[: self._quota]]
        returns, lengths = zip(*kept, strict=True)
        return returns, lengths

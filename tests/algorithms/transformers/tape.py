"""Time steps to transform, and the plainest replay there can be: a list."""

from __future__ import annotations

import torch

from alfish import nest, specs
from alfish.algorithms.transformers.base import DataTransformer
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import BatchInfo, Experience, Nest, StepType, TimeStep


def stream(observation_spec: Nest, length: int, batch_size: int = 3, seed: int = 0, end: float = 0.3) -> list[TimeStep]:
    """Random observations and rewards in random episodes; every environment begins with FIRST."""
    generator = torch.Generator().manual_seed(seed)
    steps: list[TimeStep] = []
    for _ in range(length):
        is_last = torch.rand(batch_size, generator=generator) < end
        step_type = torch.where(is_last, StepType.LAST, StepType.MID).int()
        begins = steps[-1].is_last() if steps else torch.ones(batch_size).bool()
        step_type = step_type.masked_fill(begins, StepType.FIRST)
        reward = torch.randn(batch_size, generator=generator).masked_fill(begins, 0.0)
        observation = specs.sample(observation_spec, batch_size, generator=generator)
        discount = (step_type != StepType.LAST).float()
        steps.append(TimeStep(step_type, reward, discount, observation, (), torch.arange(batch_size)))
    return steps


def rolled_out(transformer: DataTransformer, steps: list[TimeStep]) -> list[TimeStep]:
    """What the networks see of a stream."""
    state = specs.zeros(transformer.state_spec, len(steps[0].step_type))
    seen = []
    for step in steps:
        transformed, state = transformer.transform_timestep(step, state)
        seen.append(transformed)
    return seen


def assert_equal(a: Nest, b: Nest) -> None:
    """Bit-equal leaves of equal shapes and dtypes."""
    left, right = nest.named_leaves(a), nest.named_leaves(b)
    assert left.keys() == right.keys()
    for path, leaf in left.items():
        assert leaf.dtype == right[path].dtype, path
        assert torch.equal(leaf, right[path]), path


def filled(steps: list[TimeStep], max_length: int, ignored: int = 0) -> ReplayBuffer:
    """A ring that was given the stream unroll by unroll."""
    generator, unroll_length = torch.Generator().manual_seed(0), 7
    ring = ReplayBuffer(len(steps[0].step_type), max_length, generator, num_earliest_frames_ignored=ignored)
    for start in range(0, len(steps) - 1, unroll_length):
        rows = steps[start : start + unroll_length + 1]
        ring.add(Experience(nest.stack(rows), action=torch.zeros(len(rows) - 1, len(rows[0].step_type))))
    return ring


class Tape:
    """Reads everything by walking along the steps; those before `oldest` are gone."""

    def __init__(self, steps: list[TimeStep], oldest: int = 0) -> None:
        self.steps = steps
        self.oldest = oldest
        self._stacked = nest.stack(steps)

    def draw(self, batch_size: int, length: int, seed: int = 0) -> Experience:
        """Random sequences of `length` time steps."""
        generator = torch.Generator().manual_seed(seed)
        env_ids = torch.randint(len(self.steps[0].step_type), (batch_size,), generator=generator)
        last = len(self.steps) - length + 1
        return self.get(env_ids, torch.randint(self.oldest, last, (batch_size,), generator=generator), length)

    def get(self, env_ids: torch.Tensor, positions: torch.Tensor, length: int) -> Experience:
        assert int(positions.min()) >= self.oldest
        times = positions + torch.arange(length).unsqueeze(1)
        time_step = nest.index(self._stacked, (times, env_ids))
        return Experience(time_step, action=(), batch_info=BatchInfo(env_ids=env_ids, positions=positions))

    def get_field(self, path: str, env_ids: torch.Tensor, positions: torch.Tensor) -> Nest:
        assert int(positions.min()) >= self.oldest
        return nest.named_leaves(self._stacked)[path][positions, env_ids]

    def episode_begin(self, env_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self._walk(env_ids, positions, StepType.FIRST, self.oldest, -1)

    def episode_end(self, env_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self._walk(env_ids, positions, StepType.LAST, len(self.steps) - 1, +1)

    def _walk(self, envs: torch.Tensor, positions: torch.Tensor, until: int, limit: int, way: int) -> torch.Tensor:
        found = []
        for env, position in zip(envs.flatten().tolist(), positions.flatten().tolist(), strict=True):
            while position != limit and self.steps[position].step_type[env] != until:
                position += way
            found.append(position)
        return torch.tensor(found).reshape(positions.shape)

"""Experience whose every number tells where it belongs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import Experience, StepType, TimeStep

ENVS = 3


def experience(
    start: int | Sequence[int], length: int, env_ids: Sequence[int] = range(ENVS), step_type: torch.Tensor | None = None
) -> Experience:
    """Observation, action and info of environment e at time t are `1000 * e + t`; `start` may differ by environment."""
    envs = torch.tensor(list(env_ids))
    times = torch.arange(length + 1).unsqueeze(1) + torch.as_tensor(start).expand(len(envs))
    names = times + 1000 * envs
    step = TimeStep(
        step_type=torch.full_like(names, StepType.MID, dtype=torch.int32) if step_type is None else step_type,
        reward=names.float(),
        discount=torch.ones(names.shape),
        observation={"name": names.float(), "pair": torch.stack((names, -names), dim=-1)},
        prev_action=names - 1,
        env_id=envs.expand_as(names),
    )
    return Experience(time_step=step, action=names[:-1], rollout_info=(names[:-1].float(),))


def filled(
    max_length: int, lengths: Sequence[int], num_envs: int = ENVS, seed: int = 0, **options: object
) -> ReplayBuffer:
    """All environments add blocks of these lengths."""
    buffer = ReplayBuffer(num_envs, max_length, torch.Generator().manual_seed(seed), **options)  # type: ignore[arg-type]
    start = 0
    for length in lengths:
        buffer.add(experience(start, length, range(num_envs)))
        start += length
    return buffer


def times(batch: Experience) -> torch.Tensor:
    """Times of the sampled observations."""
    return (batch.time_step.observation["name"] % 1000).long()

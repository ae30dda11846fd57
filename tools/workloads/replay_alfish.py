"""alfish's replay buffer: sequences of two time steps."""

from __future__ import annotations

from collections.abc import Callable

import torch

from alfish import nest
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import BatchInfo, Experience, TimeStep
from workloads.measuring import Metrics, Request, microseconds
from workloads.settings import (
    ACTION,
    ALPHA,
    BETA,
    OBSERVATION,
    REPLAY_BATCH,
    REPLAY_FRAMES,
    REPLAY_ROWS,
)


def experience(num_envs: int, length: int, observation: torch.Tensor) -> Experience:
    """`length` actions in `num_envs` environments, with `observation` everywhere."""
    shape = (length + 1, num_envs)
    step = TimeStep(
        step_type=torch.ones(shape, dtype=torch.int32),
        reward=torch.rand(shape),
        discount=torch.ones(shape),
        observation=observation.expand(*shape, *observation.shape).contiguous(),
        prev_action=torch.rand(*shape, ACTION),
        env_id=torch.arange(num_envs).expand(shape).contiguous(),
    )
    return Experience(time_step=step, action=torch.rand(length, num_envs, ACTION))


def filled(num_envs: int, rows: int, observation: torch.Tensor, prioritized: bool = False) -> ReplayBuffer:
    """A buffer that is full, `rows` over all environments."""
    max_length = rows // num_envs
    buffer = ReplayBuffer(num_envs, max_length, torch.Generator().manual_seed(0), prioritized=prioritized)
    block = experience(num_envs, min(1000, max_length - 1), observation)
    for _ in range(max_length // block.length + 2):
        buffer.add(block)
    return buffer


def adding(num_envs: int, rows: int, observation: torch.Tensor, prioritized: bool = False) -> Callable[[], object]:
    """One step of every environment, as training adds it when it unrolls by single steps."""
    return step_adder(filled(num_envs, rows, observation, prioritized), observation)


def step_adder(buffer: ReplayBuffer, observation: torch.Tensor) -> Callable[[], object]:
    block = experience(buffer.num_environments, 1, observation)
    first, second = nest.index(block.time_step, 0), nest.index(block.time_step, 1)
    action = block.action[0]
    buffer.add_step(first, action, (), (), second)
    return lambda: buffer.add_step(second, action, (), (), second)


def uniform_calls(rows: int) -> dict[str, Callable[[], object]]:
    observation = torch.rand(OBSERVATION)
    buffer = filled(8, rows, observation)
    calls: dict[str, Callable[[], object]] = {"sample 256": lambda: buffer.sample(REPLAY_BATCH, 2)}
    return calls | {f"add {number}": adding(number, rows, observation) for number in (1, 8, 64)}


def prioritized_calls(rows: int) -> dict[str, Callable[[], object]]:
    observation = torch.rand(OBSERVATION)
    buffer = filled(8, rows, observation, prioritized=True)
    priority = torch.rand(REPLAY_BATCH)
    batches = [buffer.sample(REPLAY_BATCH, 2).batch_info for _ in range(50)]
    for batch in batches:
        buffer.update_priorities(batch, priority, ALPHA, 1e-6)
    newest = batches[-1]

    def sample() -> None:
        nonlocal newest
        newest = buffer.sample(REPLAY_BATCH, 2, BETA).batch_info

    def update(batch: BatchInfo) -> None:
        buffer.update_priorities(batch, priority, ALPHA, 1e-6)

    def both() -> None:
        sample()
        update(newest)

    return {
        "prioritized sample 256": sample,
        "prioritized update 256": lambda: update(batches[0]),
        "prioritized update 256, the newest draw": lambda: update(newest),
        "prioritized sample, then update 256": both,
        "prioritized add 8": step_adder(buffer, observation),
    }


def frame_calls(frames: int) -> dict[str, Callable[[], object]]:
    """Stacks of four frames, as a frame stacker reads them: clamped to the beginning of the episode."""
    frame = torch.zeros(84, 84, dtype=torch.uint8)
    buffer = filled(8, frames, frame)
    back = torch.arange(-3, 1)
    newest, oldest = int(buffer.newest[0]), int(buffer.oldest[0])

    def stacks(count: int) -> nest.Nest:
        env_ids, positions = torch.randint(8, (count,)), torch.randint(oldest + 3, newest, (count,))
        earliest = buffer.episode_begin(env_ids, positions)
        wanted = torch.maximum(positions[:, None] + back, earliest[:, None])
        return buffer.get_field("observation", env_ids[:, None], wanted)

    return {
        "stacks of frames 32": lambda: stacks(32),
        "stacks of frames 256": lambda: stacks(256),
        "frames add 8": step_adder(buffer, frame),
    }


def measure(request: Request) -> Metrics:
    return {
        **microseconds(uniform_calls(REPLAY_ROWS), request.seconds / 3),
        **microseconds(prioritized_calls(REPLAY_ROWS), request.seconds / 3),
        **microseconds(frame_calls(REPLAY_FRAMES), request.seconds / 3),
    }

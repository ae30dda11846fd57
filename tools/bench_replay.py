"""Times the replay buffer, in microseconds: adding, sampling, updating priorities, stacking frames.

    python tools/bench_replay.py [--rows 1000000] [--frames 100000] [--rounds 15]

Rows have an observation of 17 floats and an action of 6, as HalfCheetah has; sampled are 256 sequences of two time
steps. Every number is the median of the rounds, with the smallest beside it, in time of the processor: other programs
on the machine cost only the cache they take. The line `numpy` is a yardstick for the machine: five arrays of the same
sizes, gathered by fancy indexing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import thread_time

import numpy as np
import torch

from alfish import nest
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import Experience, TimeStep

BATCH = 256


def experience(num_envs: int, length: int, observation: torch.Tensor) -> Experience:
    """`length` actions in `num_envs` environments, with `observation` everywhere."""
    shape = (length + 1, num_envs)
    step = TimeStep(
        step_type=torch.ones(shape, dtype=torch.int32),
        reward=torch.rand(shape),
        discount=torch.ones(shape),
        observation=observation.expand(*shape, *observation.shape).contiguous(),
        prev_action=torch.rand(*shape, 6),
        env_id=torch.arange(num_envs).expand(shape).contiguous(),
    )
    return Experience(time_step=step, action=torch.rand(length, num_envs, 6))


def filled(num_envs: int, rows: int, observation: torch.Tensor, prioritized: bool = False) -> ReplayBuffer:
    max_length = rows // num_envs
    buffer = ReplayBuffer(num_envs, max_length, torch.Generator().manual_seed(0), prioritized=prioritized)
    block = experience(num_envs, min(1000, max_length - 1), observation)
    for _ in range(max_length // block.length + 2):
        buffer.add(block)
    return buffer


def measure(name: str, call: Callable[[], object], rounds: int, repeats: int = 200) -> None:
    for _ in range(10):
        call()
    times = []
    for _ in range(rounds):
        start = thread_time()
        for _ in range(repeats):
            call()
        times.append((thread_time() - start) / repeats * 1e6)
    print(f"{name:<58} {np.median(times):9.1f} {min(times):9.1f}")


def yardstick(rows: int) -> Callable[[], object]:
    arrays = [np.ones((rows, size), np.float32) for size in (17, 17, 6, 1, 1)]
    generator = np.random.default_rng(0)

    def gather() -> list[torch.Tensor]:
        drawn = generator.integers(0, rows, BATCH)
        return [torch.from_numpy(array[drawn]) for array in arrays]

    return gather


def bench_vectors(rows: int, rounds: int) -> None:
    observation = torch.rand(17)
    measure(f"numpy: five arrays of {rows} rows, gather {BATCH}", yardstick(rows), rounds)
    for num_envs in (1, 8, 64):
        buffer, step = filled(num_envs, rows, observation), experience(num_envs, 1, observation)
        measure(f"add {num_envs}", lambda buffer=buffer, step=step: buffer.add(step), rounds)  # type: ignore[misc]
    buffer = filled(8, rows, observation)
    measure(f"uniform sample {BATCH}", lambda: buffer.sample(BATCH, 2), rounds)

    ranked, step = filled(8, rows, observation, prioritized=True), experience(8, 1, observation)
    priority = torch.rand(BATCH)
    batches = [ranked.sample(BATCH, 2).batch_info for _ in range(50)]

    def update(batch: int = 0) -> None:
        ranked.update_priorities(batches[batch], priority, 0.6, 1e-6)

    def cycle() -> None:
        ranked.add(step)
        ranked.update_priorities(ranked.sample(BATCH, 2, 0.4).batch_info, priority, 0.6, 1e-6)

    for batch in range(len(batches)):
        update(batch)
    measure(f"prioritized: sample {BATCH}", lambda: ranked.sample(BATCH, 2, 0.4), rounds)
    measure("prioritized: add 8", lambda: ranked.add(step), rounds)
    ranked.sample(BATCH, 2)
    measure(f"prioritized: update {BATCH}", update, rounds)
    measure("prioritized: add 8, sample and update, one after another", cycle, rounds)


def bench_frames(frames: int, rounds: int) -> None:
    """Stacks of four frames, as a frame stacker reads them: clamped to the beginning of the episode."""
    buffer = filled(8, frames, torch.zeros(84, 84, dtype=torch.uint8))
    step = experience(8, 1, torch.zeros(84, 84, dtype=torch.uint8))
    print(f"{frames} frames of 84x84 take {buffer.nbytes / 1e9:.3f} GB")
    measure("add 8 frames", lambda: buffer.add(step), rounds, 50)
    back = torch.arange(-3, 1)
    newest, oldest = int(buffer.newest[0]), int(buffer.oldest[0])

    def stacks(count: int) -> nest.Nest:
        env_ids, positions = torch.randint(8, (count,)), torch.randint(oldest + 3, newest, (count,))
        earliest = buffer.episode_begin(env_ids, positions)
        wanted = torch.maximum(positions[:, None] + back, earliest[:, None])
        return buffer.get_field("observation", env_ids[:, None], wanted)

    for count in (32, 256):
        measure(f"{count} stacks of four frames", lambda count=count: stacks(count), rounds, 10)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="stored rows over all environments")
    parser.add_argument("--frames", type=int, default=100_000, help="stored frames; 0 leaves this part out")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{f'{options.rows} rows':<58} {'median us':>9} {'least us':>9}")
    bench_vectors(options.rows, options.rounds)
    if options.frames:
        bench_frames(options.frames, options.rounds)


if __name__ == "__main__":
    main()

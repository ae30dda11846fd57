"""TorchRL's replay buffer, uniform.

Its priorities are in C++ that is built for one release of torch, and none of its wheels is for this one. It stores
whole stacks of frames, which is left out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from workloads.measuring import Metrics, Request, microseconds
from workloads.settings import ACTION, OBSERVATION, REPLAY_BATCH, REPLAY_ROWS


def step(number: int) -> TensorDict:
    following = TensorDict(
        observation=torch.ones(number, OBSERVATION),
        reward=torch.ones(number, 1),
        terminated=torch.zeros(number, 1, dtype=torch.bool),
        batch_size=[number],
    )
    seen, action = torch.ones(number, OBSERVATION), torch.ones(number, ACTION)
    return TensorDict(observation=seen, action=action, next=following, batch_size=[number])


def adding(buffer: TensorDictReplayBuffer, number: int) -> Callable[[], object]:
    batch = step(number)
    return lambda: buffer.extend(batch)


def measure(request: Request) -> Metrics:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(REPLAY_ROWS), batch_size=REPLAY_BATCH)
    block = step(1000)
    for _ in range(REPLAY_ROWS // 1000):
        buffer.extend(block)
    calls: dict[str, Callable[[], object]] = {"sample 256": buffer.sample}
    return microseconds(calls | {f"add {number}": adding(buffer, number) for number in (1, 8, 64)}, request.seconds)

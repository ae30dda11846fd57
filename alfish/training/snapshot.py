"""The parameters that acting needs, in memory that worker processes share."""

from __future__ import annotations

import threading
import time

import torch
from torch import nn

from alfish.algorithms.algorithm import Algorithm
from alfish.errors import ConfigError, WorkerLost
from alfish.specs import TensorSpec
from alfish.training.shared_tensors import SharedTensors

_COUNTERS = ("iterations", "env_steps", "updates", "episodes")
_HEADER = (TensorSpec((), torch.int64), TensorSpec((len(_COUNTERS),), torch.int64), TensorSpec((), torch.float64))
_PATIENCE = 10.0  # seconds; a copy takes milliseconds
_lock = threading.Lock()  # of this process alone


class SharedParameters:
    """Parameters and buffers of the acting part of an algorithm, its data transformers included, and its progress.

    One process publishes, any number of others load; they get this object as an argument when they are started. A
    reader gets a whole state, never half of one and half of the next. Nobody holds a lock, so nobody can die with it.

    Args:
        algorithm: says what there is to share; nothing is published yet.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        state = acting_state(algorithm)
        self._shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        specs = [TensorSpec(tuple(tensor.shape), tensor.dtype) for tensor in state.values()]
        # Before them the sequence number, the counters of the run, and its fraction.
        self._shared = SharedTensors([*_HEADER, *specs])

    @property
    def version(self) -> int:
        """How many states were published, the one that is just being written not counted."""
        return int(self._sequence) // 2

    def publish(self, algorithm: Algorithm) -> int:
        """Replaces the shared state by that of `algorithm`, and returns its version: 1, 2, ..."""
        version = self.version + 1
        state = self._state_of(algorithm)
        sequence, counters, fraction, *shared = self._shared.tensors
        sequence.fill_(2 * version - 1)  # odd: readers wait
        _barrier()
        for tensor, name in zip(shared, self._shapes, strict=True):
            tensor.copy_(state[name].detach())
        counters.copy_(torch.tensor([getattr(algorithm.progress, name) for name in _COUNTERS]))
        fraction.fill_(algorithm.progress.fraction)
        _barrier()
        sequence.fill_(2 * version)
        return version

    def load_into(self, algorithm: Algorithm) -> int:
        """Gives the newest shared state to `algorithm`, and returns its version; 0: there is none yet.

        Raises:
            WorkerLost: the publisher began to write and does not finish.
        """
        state = self._state_of(algorithm)
        sequence, counters, fraction, *tensors = self._read()
        if sequence == 0:
            return 0
        with torch.no_grad():
            for tensor, name in zip(tensors, self._shapes, strict=True):
                state[name].copy_(tensor)
        for name, count in zip(_COUNTERS, counters.tolist(), strict=True):
            setattr(algorithm.progress, name, count)
        algorithm.progress.fraction = fraction.item()
        return int(sequence) // 2

    @property
    def _sequence(self) -> torch.Tensor:
        return self._shared.tensors[0]

    def _state_of(self, algorithm: Algorithm) -> dict[str, torch.Tensor]:
        state = acting_state(algorithm)
        for name, shape in self._shapes.items():
            if name not in state or state[name].shape != shape:
                raise ConfigError(
                    f"{type(algorithm).__name__} is not the algorithm whose parameters are shared: these have a "
                    f"{name} of shape {shape}. Are both made from the same configuration?"
                )
        return state

    def _read(self) -> list[torch.Tensor]:
        """A copy of the tensors that no write came into."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            before = int(self._sequence)
            if before % 2 == 0:
                _barrier()
                copies = self._shared.copies()
                _barrier()
                if int(self._sequence) == before:
                    return copies
            time.sleep(0.0002)
        raise WorkerLost(f"the parameters are half-written since {_PATIENCE:g} s: their publisher is gone or stuck")


def acting_state(algorithm: Algorithm) -> dict[str, torch.Tensor]:
    """Parameters and buffers without those of which the algorithms say that only learning needs them."""
    idle = {f"{path}{name}" for path, part in _algorithms(algorithm) for name in part.learning_only}
    state: dict[str, torch.Tensor] = {}
    known: set[int] = set()
    # With duplicates: a module that the actor shares with a critic is found under both names, and acting needs it.
    for tensors in (algorithm.named_parameters, algorithm.named_buffers):
        for name, tensor in tensors(remove_duplicate=False):
            parts = name.split(".")
            if not any(".".join(parts[:end]) in idle for end in range(1, len(parts))) and id(tensor) not in known:
                known.add(id(tensor))
                state[name] = tensor
    return state


def _algorithms(root: nn.Module) -> list[tuple[str, Algorithm]]:
    """The algorithms of the tree with the prefix of what is below them."""
    return [
        (f"{name}." if name else "", module) for name, module in root.named_modules() if isinstance(module, Algorithm)
    ]


def _barrier() -> None:
    """Other processes see what was written before it before what is written after it.

    Python has no fence, but releasing a lock and taking it again is one, also on processors that reorder writes.
    """
    with _lock:
        pass
    with _lock:
        pass

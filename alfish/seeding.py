"""One root seed, many independent named streams.

A stream is known by its name and indices, not by the order in which it is asked for: adding a stream to one part
of alfish leaves the random numbers of all others as they were.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


class Seeds:
    """The streams of one run.

    >>> Seeds(7).integer("env", 0) == Seeds(7).integer("env", 0)
    True
    """

    def __init__(self, root: int) -> None:
        self.root = root

    @classmethod
    def draw(cls) -> Seeds:
        """Seeds from a root nobody chose; the caller logs `root`, which repeats the run."""
        return cls(secrets.randbits(31))

    def sequence(self, name: str, *indices: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.root, spawn_key=(zlib.crc32(name.encode()), *indices))

    def integer(self, name: str, *indices: int) -> int:
        """A seed of 31 bits, for libraries that want an integer."""
        return int(self.sequence(name, *indices).generate_state(1)[0] >> 1)

    def numpy(self, name: str, *indices: int) -> np.random.Generator:
        return np.random.default_rng(self.sequence(name, *indices))

    def torch(self, name: str, *indices: int, device: torch.device | str = "cpu") -> torch.Generator:
        generator = torch.Generator(device=device)
        generator.manual_seed(int(self.sequence(name, *indices).generate_state(1, np.uint64)[0] >> 1))
        return generator

    def child(self, name: str, *indices: int) -> Seeds:
        """A root of its own, e.g. for evaluation: nothing it draws is shared with the parent."""
        return Seeds(self.integer(name, *indices))

    @contextmanager
    def fork_torch(self, name: str) -> Iterator[None]:
        """Torch's global generator follows the stream inside the block (network initialisation) and is restored."""
        with torch.random.fork_rng():
            torch.manual_seed(self.integer(name))
            yield

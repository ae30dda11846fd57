"""Numbers as lines of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from alfish.config.registry import configurable
from alfish.summary.writer import Moment


@configurable
class JsonlLogger:
    """One JSON object per line: iterations, env_steps, seconds, `updates` if it is about one update, and the numbers.

    A number that is not finite, which JSON does not have, is null.

    Args:
        file: where to; a relative path is below the folder of the run.
    """

    def __init__(self, file: str = "progress.jsonl") -> None:
        self._file = file
        self._path = Path(file)

    def open(self, folder: Path) -> None:
        """Drops a last line that a kill left unfinished."""
        self._path = folder / Path(self._file).expanduser()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            os.truncate(self._path, self._path.read_bytes().rfind(b"\n") + 1)

    def write(self, moment: Moment, values: Mapping[str, float]) -> None:
        line: dict[str, Any] = {} if moment.update is None else {"updates": moment.update}
        line |= {"iterations": moment.iterations, "env_steps": moment.env_steps, "seconds": round(moment.seconds, 3)}
        line |= {tag: value if isfinite(value) else None for tag, value in values.items()}
        with self._path.open("ab", buffering=0) as file:
            start = file.tell()
            data = f"{json.dumps(line)}\n".encode()
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError:
                with suppress(OSError):
                    file.truncate(start)  # half a line would spoil the next one, too
                raise

    def state_dict(self) -> dict[str, Any]:
        return {"size": self._path.stat().st_size if self._path.exists() else 0}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Cuts off what was written after the checkpoint, and will be written again."""
        if self._path.exists() and self._path.stat().st_size > state["size"]:
            os.truncate(self._path, state["size"])

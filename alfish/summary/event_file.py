"""TensorBoard event files, written synchronously.

torch's and TensorBoard's own writers hand events to a thread; when that dies (a full disk), a later call raises into
the training loop and the writer stays broken. This one raises `OSError` at once, to `ResilientWriter`.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING

from alfish.summary.writer import Moment

_METRICS = "Metrics/"


class TensorBoardWriter:
    """Writes `events.out.tfevents.*` into a directory.

    Tags are written against iterations, or against updates where the moment is one; those below `Metrics/` also
    against environment steps and seconds of training, below `Metrics_vs_EnvironmentSteps/` and `Metrics_vs_WallTime/`.

    Args:
        directory: made when it does not exist. The file is made with the first event.
        flush_seconds: events wait at most this long, if `poll` is called.
        max_queue: and at most this many of them.
        clock: a monotonic clock.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        flush_seconds: float = 1.0,
        max_queue: int = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = Path(directory)
        self._flush_seconds = flush_seconds
        self._max_queue = max_queue
        self._clock = clock
        self._queue: list[bytes] = []
        self._flush_at = clock() + flush_seconds
        self._file: FileIO | None = None

    def scalars(self, moment: Moment, values: Mapping[str, float]) -> None:
        self._add_scalars(moment.step, values)
        metrics = {tag.removeprefix(_METRICS): v for tag, v in values.items() if tag.startswith(_METRICS)}
        if metrics:
            for axis, step in (("EnvironmentSteps", moment.env_steps), ("WallTime", int(moment.seconds))):
                self._add_scalars(step, {f"Metrics_vs_{axis}/{name}": value for name, value in metrics.items()})

    def text(self, moment: Moment, tag: str, text: str) -> None:
        """TensorBoard shows it as Markdown."""
        content = TensorProto(
            dtype=DT_STRING,
            string_val=[text.encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        self._add(moment.iterations, [Summary.Value(tag=tag, tensor=content, metadata=metadata)])

    def histogram(self, moment: Moment, tag: str, values: npt.NDArray[np.float64]) -> None:
        self._add(moment.step, [Summary.Value(tag=tag, histo=_histogram(values))])

    def poll(self) -> None:
        if self._queue and (len(self._queue) >= self._max_queue or self._clock() >= self._flush_at):
            self.flush()

    def flush(self) -> None:
        self._flush_at = self._clock() + self._flush_seconds
        if not self._queue:
            return
        if self._file is None:
            self._file = self._open()
            self._queue.insert(0, _record(Event(wall_time=time.time(), file_version="brain.Event:2")))
        _write_whole(self._file, b"".join(self._queue))
        self._queue.clear()

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return {"sizes": {path.name: path.stat().st_size for path in self._files()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cuts every event file back to its size at the checkpoint and removes those that came later."""
        if self._file is not None:
            raise RuntimeError("event files are cut before the first event of a resumed run, not after")
        self._queue.clear()
        for path in self._files():
            size = state["sizes"].get(path.name)
            if size is None:
                path.unlink()
            elif size < path.stat().st_size:
                # A new file in place of the old one: a TensorBoard that has it open must not see it shrink.
                shortened = path.with_name(f"shortened.{path.name.replace('tfevents', 'part')}")
                shortened.write_bytes(path.read_bytes()[:size])
                os.replace(shortened, path)

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("events.out.tfevents.*"))

    def _open(self) -> FileIO:
        """A file that sorts after all others, whatever the clock says: TensorBoard reads them in this order."""
        self._directory.mkdir(parents=True, exist_ok=True)
        times = [int(found[1]) for path in self._files() if (found := re.search(r"tfevents\.(\d+)", path.name))]
        stamp = max([int(time.time()), *(before + 1 for before in times)])
        return open(self._directory / f"events.out.tfevents.{stamp:010d}.alfish", "xb", buffering=0)

    def _add_scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._add(step, [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])

    def _add(self, step: int, values: list[Summary.Value]) -> None:
        self._queue.append(_record(Event(wall_time=time.time(), step=step, summary=Summary(value=values))))
        self.poll()


def _write_whole(file: FileIO, data: bytes) -> None:
    """All of the data, or, when the disk is full, none of it: half a record would end the file for its readers."""
    start = file.tell()
    try:
        while data:
            data = data[file.write(data) :]
    except OSError:
        with suppress(OSError):
            file.truncate(start) if start else os.unlink(file.name)
        file.close()
        raise


def _histogram(values: npt.NDArray[np.float64], num_bins: int = 30) -> HistogramProto:
    """Of the finite values; TensorBoard cannot show others."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return HistogramProto()
    counts, edges = np.histogram(finite, bins=num_bins)
    return HistogramProto(
        min=finite.min(),
        max=finite.max(),
        num=finite.size,
        sum=finite.sum(),
        sum_squares=np.square(finite).sum(),
        bucket_limit=edges[1:].tolist(),
        bucket=counts.tolist(),
    )


def _record(event: Event) -> bytes:
    """An event framed as a TFRecord: length, its checksum, the data, its checksum."""
    data = event.SerializeToString()
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", _masked_crc32c(header)) + data + struct.pack("<I", _masked_crc32c(data))


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)  # Castagnoli, bits reversed
        table.append(byte)
    return tuple(table)


_CRC_TABLE = _crc_table()


def _masked_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF

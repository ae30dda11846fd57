"""Writing pictures to a film: .mp4 or .gif."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from alfish.config.problems import nearest
from alfish.errors import ConfigError, StorageFault
from alfish.playing.extra import require
from alfish.playing.overlay import Frame


class Recorder(ABC):
    """A film that grows frame by frame, all of one size; closing makes the file whole.

    A film that is closed early, by an error or Ctrl-C, is whole as well: it ends there.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self.path = path
        self.fps = fps
        self.num_frames = 0
        self._is_open = False

    def add(self, frame: Frame) -> None:
        """Appends a picture `[H, W, 3]`."""
        self._is_open = True
        with self._told():
            self._add(np.ascontiguousarray(frame))
        self.num_frames += 1

    def close(self) -> None:
        """Ends the film; without any frame there is no file."""
        if self._is_open:
            with self._told():
                self._close()
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _add(self, frame: Frame) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:
            self._is_open = False  # PyAV crashes when it is asked to go on after a write that failed
            with suppress(OSError):
                self.path.unlink()  # nothing could show it
            raise StorageFault(f"cannot write {self.path}: {getattr(error, 'strerror', None) or error}") from error


class Mp4Recorder(Recorder):
    """H.264, as every browser and player can show it."""

    def __init__(self, path: Path, fps: float) -> None:
        super().__init__(path, fps)
        self._av = require("av")
        self._container: Any = None
        self._stream: Any = None

    def _add(self, frame: Frame) -> None:
        frame = _even(frame)
        if self._container is None:
            self._container = self._av.open(str(self.path), mode="w", format="mp4")
            rate = Fraction(self.fps).limit_denominator(1000)
            self._stream = self._container.add_stream("libx264", rate=rate, options={"crf": "20"})
            self._stream.height, self._stream.width = frame.shape[:2]
            self._stream.pix_fmt = "yuv420p"
        for packet in self._stream.encode(self._av.VideoFrame.from_ndarray(frame, format="rgb24")):
            self._container.mux(packet)

    def _close(self) -> None:
        for packet in self._stream.encode():
            self._container.mux(packet)
        self._container.close()


class GifRecorder(Recorder):
    """For short films that play anywhere. The frames are held in memory until the end."""

    def __init__(self, path: Path, fps: float) -> None:
        super().__init__(path, fps)
        self._pillow = require("PIL", "PIL.Image")
        self._frames: list[Any] = []

    def _add(self, frame: Frame) -> None:
        image = self._pillow.Image.fromarray(frame)
        self._frames.append(image.quantize(method=self._pillow.Image.Quantize.FASTOCTREE))

    def _close(self) -> None:
        first, *others = self._frames
        first.save(self.path, save_all=True, append_images=others, duration=1000 / self.fps, loop=0, disposal=1)


_RECORDERS: dict[str, type[Recorder]] = {".mp4": Mp4Recorder, ".gif": GifRecorder}


def open_recorder(path: Path, fps: float) -> Recorder:
    """A recorder for the kind of file that the name asks for. The file appears with the first frame, or at the end."""
    path = path.expanduser()
    suffix = path.suffix.lower()
    if suffix not in _RECORDERS:
        close = nearest(suffix, list(_RECORDERS))
        hint = f"Did you mean {path.stem}{close}?" if close else "Use a name that ends in .mp4 or .gif"
        raise ConfigError(f"--record_file={path}: no such kind of film. {hint}")
    if not path.parent.is_dir():
        raise StorageFault(f"cannot write {path}: the folder {path.parent} does not exist")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StorageFault(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not permitted'}")
    return _RECORDERS[suffix](path, fps)


def _even(frame: Frame) -> Frame:
    """Colours are stored for blocks of two by two: the last row or column of an odd size is repeated."""
    height, width = frame.shape[:2]
    return frame if height % 2 == width % 2 == 0 else np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), "edge")

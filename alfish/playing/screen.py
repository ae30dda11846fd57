"""Where the pictures of play go: a film or a window."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from alfish.playing.overlay import Frame, Overlay, enlarge
from alfish.playing.panel import Panel
from alfish.playing.video import open_recorder
from alfish.playing.window import Window, draw_without_display


class Screen:
    """Takes pictures, one per time step. What is missing or not allowed is told when it is made.

    Args:
        title: of the window.
        record_file: film to write; None: open a window.
        fps: pictures per second.
        overlay: draw the panel beside each picture.
    """

    def __init__(self, title: str, record_file: Path | None, fps: float, overlay: bool) -> None:
        self._overlay = Overlay() if overlay else None
        self._window = Window(title, fps) if record_file is None else None
        self._recorder = None
        if record_file is not None:
            self._recorder = open_recorder(record_file, fps)
            draw_without_display()
        self._resources = ExitStack()
        for part in (self._window, self._recorder):
            if part is not None:
                self._resources.enter_context(part)

    @property
    def is_closed(self) -> bool:
        """Whether the person who watches has closed the window."""
        return self._window is not None and self._window.is_closed

    @property
    def num_frames(self) -> int:
        """Of the film so far."""
        return 0 if self._recorder is None else self._recorder.num_frames

    def show(self, frame: Frame, panel: Panel) -> None:
        if self._overlay is not None:
            frame = self._overlay.draw(frame, panel)
        if self._recorder is not None:
            self._recorder.add(frame)
        if self._window is not None:
            self._window.show(enlarge(frame))

    def close(self) -> None:
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""A window that shows pictures at the speed of the film."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, Self

from alfish.errors import ConfigError
from alfish.playing.extra import require
from alfish.playing.overlay import Frame


def has_display() -> bool:
    """Whether a window can be expected to open."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def draw_without_display() -> None:
    """Environments shall not look for a display that is not there: neither SDL (Gymnasium's) nor OpenGL (MuJoCo's)."""
    if not has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl")


class Window:
    """Opens with the first picture.

    Args:
        title: of the window.
        fps: pictures per second at most.
    """

    def __init__(self, title: str, fps: float) -> None:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self._pygame = require("pygame")
        self._title = title
        self._fps = fps
        self._clock: Any = None
        self.is_closed = False  # by the person who watches

    def show(self, frame: Frame) -> None:
        """Shows a picture `[H, W, 3]` and waits until the next one is due."""
        pygame = self._pygame
        size = (frame.shape[1], frame.shape[0])
        if self._clock is None:
            self._open()
        surface = pygame.display.get_surface()
        if surface is None or surface.get_size() != size:
            surface = pygame.display.set_mode(size)
        surface.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self.is_closed = any(event.type == pygame.QUIT for event in pygame.event.get())
        self._clock.tick(self._fps)

    def _open(self) -> None:
        try:
            self._pygame.display.init()
        except self._pygame.error as error:
            raise ConfigError(f"no window can be opened: {error}. Record a film with --record_file=play.mp4") from error
        self._pygame.display.set_caption(self._title)
        self._clock = self._pygame.time.Clock()

    def close(self) -> None:
        if self._clock is not None:
            self._pygame.display.quit()
            self._clock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

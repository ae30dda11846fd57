from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pygame
import pytest

from alfish.errors import ConfigError
from alfish.playing.panel import Panel
from alfish.playing.screen import Screen

FRAME = np.full((400, 600, 3), 200, np.uint8)
PANEL = Panel((("step", "1"),))


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.mark.parametrize(("overlay", "width"), [(True, 840), (False, 600)])
def test_a_film_is_recorded_with_or_without_the_panel(overlay, width):
    with Screen("title", Path("a.mp4"), 30, overlay) as screen:
        screen.show(FRAME, PANEL)
        screen.show(FRAME, PANEL)
        assert screen.num_frames == 2
        assert not screen.is_closed
        assert not pygame.display.get_init()  # no window
    with av.open("a.mp4") as film:
        assert [frame.width for frame in film.decode(video=0)] == [width, width]


def test_a_window_is_opened_when_nothing_is_recorded():
    with Screen("title", None, 1000, False) as screen:
        screen.show(FRAME[:200, :300], PANEL)
        assert pygame.display.get_surface().get_size() == (600, 400)  # small pictures are enlarged
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        screen.show(FRAME, PANEL)
        assert screen.is_closed
        assert screen.num_frames == 0
    assert not pygame.display.get_init()


def test_a_wrong_name_is_told_at_once():
    with pytest.raises(ConfigError, match="no such kind of film"):
        Screen("title", Path("a.txt"), 30, True)

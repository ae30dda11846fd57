from __future__ import annotations

import time

import numpy as np
import pygame
import pytest

from alfish.errors import ConfigError
from alfish.playing import window
from alfish.playing.window import Window, draw_without_display, has_display

FRAME = np.zeros((40, 60, 3), np.uint8)


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    """SDL draws into memory, whatever the machine has."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def test_the_picture_is_on_the_screen():
    frame = FRAME.copy()
    frame[10, 50] = (255, 128, 0)
    with Window("title", fps=1000) as shown:
        shown.show(frame)
        surface = pygame.display.get_surface()
        assert surface.get_size() == (60, 40)
        assert surface.get_at((50, 10))[:3] == (255, 128, 0)
        assert pygame.display.get_caption()[0] == "title"
        shown.show(np.zeros((20, 30, 3), np.uint8))
        assert pygame.display.get_surface().get_size() == (30, 20)
    assert not pygame.display.get_init()


def test_pictures_come_no_faster_than_asked_for():
    with Window("title", fps=50) as shown:
        shown.show(FRAME)
        began = time.monotonic()
        for _ in range(5):
            shown.show(FRAME)
        assert time.monotonic() - began > 0.08


def test_closing_the_window_is_noticed():
    with Window("title", fps=1000) as shown:
        shown.show(FRAME)
        assert not shown.is_closed
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        shown.show(FRAME)
        assert shown.is_closed


def test_a_window_that_cannot_be_opened_is_told(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no_such_driver")
    pygame.display.quit()
    with Window("title", fps=30) as shown, pytest.raises(ConfigError, match=r"no window can be opened.*--record_file"):
        shown.show(FRAME)


def test_a_display_is_recognised(monkeypatch):
    monkeypatch.setattr(window.sys, "platform", "linux")
    assert not has_display()
    monkeypatch.setenv("DISPLAY", ":0")
    assert has_display()
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setattr(window.sys, "platform", "darwin")
    assert has_display()


def test_without_a_display_environments_draw_into_memory(monkeypatch):
    monkeypatch.setattr(window.sys, "platform", "linux")
    for name in ("SDL_VIDEODRIVER", "MUJOCO_GL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("DISPLAY", ":0")
    draw_without_display()
    assert "MUJOCO_GL" not in window.os.environ
    monkeypatch.delenv("DISPLAY")
    draw_without_display()
    assert (window.os.environ["SDL_VIDEODRIVER"], window.os.environ["MUJOCO_GL"]) == ("dummy", "egl")

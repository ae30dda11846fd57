from __future__ import annotations

import numpy as np
import pytest

from alfish.playing.overlay import Overlay, enlarge
from alfish.playing.panel import Bar, Chart, Panel

ORANGE = (255, 170, 60)


def picture(height: int = 400, width: int = 600) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def orange_pixels(frame: np.ndarray) -> np.ndarray:
    return (frame == ORANGE).all(-1)


def bar_length(value: float, **options) -> int:
    """The width of what is drawn of a bar from 0 to 1."""
    options = {"low": 0.0, "high": 1.0, **options}
    bar = Bar("", value, is_chosen=True, **options)
    frame = Overlay().draw(picture(), Panel((), (Chart("", (bar,)),)))
    return int(orange_pixels(frame[:, 600:]).any(0).sum())


def test_nothing_of_the_picture_is_hidden():
    frame = Overlay().draw(picture(), Panel((("step", "1"),)))
    assert frame.shape == (400, 840, 3)
    assert frame.dtype == np.uint8
    assert np.array_equal(frame[:, :600], picture())


def test_small_pictures_grow_in_whole_pixels():
    small = picture(210, 160)
    large = enlarge(small)
    assert large.shape == (420, 320, 3)
    assert np.array_equal(large[::2, ::2], small)
    assert np.array_equal(large[1::2, 1::2], small)
    assert enlarge(picture()).shape == (400, 600, 3)


def test_numbers_are_written():
    empty = Overlay().draw(picture(), Panel(()))
    written = Overlay().draw(picture(), Panel((("step", "1"),)))
    other = Overlay().draw(picture(), Panel((("step", "2"),)))
    assert not np.array_equal(empty, written)
    assert not np.array_equal(written, other)


def test_bars_are_as_long_as_their_values():
    full = bar_length(1.0)
    assert bar_length(0.5) == pytest.approx(full / 2, abs=2)
    assert bar_length(2.0) == full  # what is beyond the scale ends there
    assert bar_length(-0.5, low=-1.0) == pytest.approx(full / 4, abs=2)  # from 0 to the left
    assert bar_length(-0.5, low=-1.0) == pytest.approx(bar_length(0.5, low=-1.0), abs=2)


def test_more_bars_than_fit_do_no_harm():
    bars = tuple(Bar(str(index), 0.5, 0.0, 1.0, spread=(0.4, 0.6)) for index in range(200))
    assert Overlay().draw(picture(), Panel((), (Chart("many", bars),))).shape == (400, 840, 3)

"""Drawing the panel beside a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alfish.playing.extra import require
from alfish.playing.panel import Bar, Panel

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

Frame = npt.NDArray[np.uint8]

_WIDTH = 240
_LEAST_HEIGHT = 400
_MARGIN, _LINE, _BAR = 14, 22, 18
_LABEL, _NUMBER = 40, 64  # columns left and right of the bars
_BACKGROUND, _SCALE = (24, 26, 31), (52, 56, 64)
_TEXT, _FAINT, _OTHER, _CHOSEN = (235, 235, 235), (150, 155, 165), (96, 125, 160), (255, 170, 60)


def enlarge(frame: Frame) -> Frame:
    """A small picture in whole multiples of its size, so that pixels stay sharp; a large one as it is."""
    factor = -(-_LEAST_HEIGHT // frame.shape[0])
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


class Overlay:
    """Draws panels to the right of pictures: nothing of the picture is hidden."""

    def __init__(self) -> None:
        self._pillow = require("PIL", "PIL.Image", "PIL.ImageDraw", "PIL.ImageFont")
        self._font = self._pillow.ImageFont.load_default(15)
        self._small = self._pillow.ImageFont.load_default(12)

    def draw(self, frame: Frame, panel: Panel) -> Frame:
        """The picture `[H, W, 3]`, enlarged if it is small, with the panel to its right."""
        frame = enlarge(frame)
        image = self._pillow.Image.new("RGB", (_WIDTH, frame.shape[0]), _BACKGROUND)
        self._draw_panel(self._pillow.ImageDraw.Draw(image), panel)
        return np.concatenate([frame, np.asarray(image)], axis=1)

    def _draw_panel(self, draw: ImageDraw, panel: Panel) -> None:
        y = _MARGIN
        for name, number in panel.numbers:
            draw.text((_MARGIN, y), name, _FAINT, self._font)
            draw.text((_WIDTH - _MARGIN, y), number, _TEXT, self._font, anchor="ra")
            y += _LINE
        for chart in panel.charts:
            y += _LINE // 2
            draw.text((_MARGIN, y), chart.title, _FAINT, self._font)
            y += _LINE + 2
            for bar in chart.bars:
                self._draw_bar(draw, bar, y)
                y += _BAR

    def _draw_bar(self, draw: ImageDraw, bar: Bar, y: int) -> None:
        color = _CHOSEN if bar.is_chosen else _OTHER
        left, right = _MARGIN + _LABEL, _WIDTH - _MARGIN - _NUMBER

        def x(value: float) -> float:
            share = (value - bar.low) / (bar.high - bar.low)
            return left + min(max(share, 0.0), 1.0) * (right - left)

        draw.text((_MARGIN, y), bar.label, color if bar.is_chosen else _TEXT, self._small)
        draw.text((_WIDTH - _MARGIN, y), f"{bar.value:.4g}", _TEXT, self._small, anchor="ra")
        draw.rectangle((left, y + 2, right, y + _BAR - 6), _SCALE)
        start = x(min(max(0.0, bar.low), bar.high))
        draw.rectangle((*_ordered(start, y + 2, x(bar.value), y + _BAR - 6),), color)
        if bar.low < 0 < bar.high:
            draw.line((x(0), y + 1, x(0), y + _BAR - 5), _FAINT, 1)
        if bar.spread is not None:
            below, above = map(x, bar.spread)
            draw.line((below, y + 6, above, y + 6), _TEXT, 1)
            for end in (below, above):
                draw.line((end, y + 3, end, y + 9), _TEXT, 1)


def _ordered(x0: float, y0: float, x1: float, y1: float) -> Any:
    return min(x0, x1), y0, max(x0, x1), y1

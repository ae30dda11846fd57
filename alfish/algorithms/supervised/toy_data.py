"""Small sets of examples that are generated: they need no download, and outliers are known to be outliers."""

from __future__ import annotations

from typing import Annotated

import torch

from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.config.ranges import Range
from alfish.config.registry import configurable

Number = Annotated[int, Range(min=1)]


# Seven-segment displays: the segments a to g by their pixels, (row, column), in 7 rows of 5.
_SEGMENTS = {
    "a": ((0, 1), (0, 2), (0, 3)),
    "b": ((1, 4), (2, 4)),
    "c": ((4, 4), (5, 4)),
    "d": ((6, 1), (6, 2), (6, 3)),
    "e": ((4, 0), (5, 0)),
    "f": ((1, 0), (2, 0)),
    "g": ((3, 1), (3, 2), (3, 3)),
}
_DIGITS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
_LETTERS = ("abcefg", "cdefg", "adef", "bcdeg", "adefg", "aefg", "bcefg", "def", "abefg", "bcdef")  # AbCdEFHLPU


@configurable
def segment_digits(
    generator: torch.Generator,
    num_train: Number = 1000,
    num_test: Number = 1000,
    num_outliers: Number = 1000,
    noise: Annotated[float, Range(min=0)] = 0.15,
) -> Dataset:
    """Pictures of seven-segment displays, `[35]`: 7 rows of 5 pixels. The classes are the digits, outliers are letters.

    Args:
        generator: where brightness and noise come from.
        num_train: pictures to learn from.
        num_test: pictures to be evaluated on.
        num_outliers: pictures of letters.
        noise: standard deviation of the noise of a pixel; a bright one is between 0.5 and 1.
    """

    def pictures(signs: tuple[str, ...], number: int) -> tuple[torch.Tensor, torch.Tensor]:
        which = torch.arange(number) % len(signs)
        brightness = 0.5 + 0.5 * torch.rand(number, 1, generator=generator)
        clean = torch.stack([_picture(sign) for sign in signs])[which]
        return brightness * clean + noise * torch.randn(clean.shape, generator=generator), which

    train, test = Examples(*pictures(_DIGITS, num_train)), Examples(*pictures(_DIGITS, num_test))
    return Dataset("segment_digits", train, test, pictures(_LETTERS, num_outliers)[0])


def _picture(sign: str) -> torch.Tensor:
    picture = torch.zeros(7, 5)
    for segment in sign:
        for row, column in _SEGMENTS[segment]:
            picture[row, column] = 1.0
    return picture.flatten()


@configurable
def blobs(
    generator: torch.Generator,
    num_classes: Annotated[int, Range(min=2)] = 5,
    num_features: Number = 8,
    num_train: Number = 500,
    num_test: Number = 500,
    num_outliers: Number = 500,
    noise: Annotated[float, Range(min=0)] = 0.5,
) -> Dataset:
    """A cloud of points per class, around a centre of its own. Outliers belong to one more cloud, of no class.

    Args:
        generator: where centres and points come from.
        num_classes: how many.
        num_features: dimensions of the space.
        num_train: points to learn from.
        num_test: points to be evaluated on.
        num_outliers: points of no class.
        noise: standard deviation of the points around their centre; the centres have one of 1.
    """
    centres = torch.randn(num_classes + 1, num_features, generator=generator)

    def cloud(number: int, classes: torch.Tensor) -> torch.Tensor:
        return centres[classes] + noise * torch.randn(number, num_features, generator=generator)

    def part(number: int) -> Examples:
        classes = torch.arange(number) % num_classes
        return Examples(cloud(number, classes), classes)

    train, test = part(num_train), part(num_test)
    return Dataset("blobs", train, test, cloud(num_outliers, torch.full((num_outliers,), num_classes)))

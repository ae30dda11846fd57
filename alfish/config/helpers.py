"""Small configurables for what gin's grammar leaves out: arithmetic and indexing.

```
NUM_ENVS = 8
double/multiply.a = %NUM_ENVS
double/multiply.b = 2
TrainerConfig.mini_batch_size = @double/multiply()
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alfish.config.registry import configurable


@configurable
def add(a: float = 0, b: float = 0) -> float:
    """The sum of two numbers; an int if both are.

    Args:
        a: a number.
        b: a number.
    """
    return a + b


@configurable
def multiply(a: float = 1, b: float = 1) -> float:
    """The product of two numbers; an int if both are.

    Args:
        a: a number.
        b: a number.
    """
    return a * b


@configurable
def divide(a: float = 1, b: float = 1) -> float:
    """The quotient of two numbers; an int if both are and nothing is left over.

    Args:
        a: the number that is divided.
        b: what it is divided by; not 0.
    """
    exact = isinstance(a, int) and isinstance(b, int) and a % b == 0
    return a // b if exact else a / b


@configurable
def item(sequence: Sequence[Any] = (), index: int = 0) -> Any:
    """One item of a tuple or list.

    Args:
        sequence: the items.
        index: counted from 0; from the end if negative.
    """
    return sequence[index]

"""What is shown beside a picture of play: numbers, and bars for the thoughts of the algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from alfish import nest
from alfish.algorithms.explanation import Explanation
from alfish.networks.action_mask import MASKED_LOGIT
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest

_MOST_BARS = 20


@dataclass(frozen=True)
class Bar:
    """One value between the ends of its scale."""

    label: str
    value: float
    low: float
    high: float
    is_chosen: bool = False  # the action that is taken
    spread: tuple[float, float] | None = None  # one standard deviation to both sides


@dataclass(frozen=True)
class Chart:
    """Bars that belong together."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Panel:
    """All that is shown of one step."""

    numbers: tuple[tuple[str, str], ...]
    charts: tuple[Chart, ...] = ()


def make_panel(
    step: int, reward: float, total: float, action: Nest, action_spec: Nest, explanation: Explanation
) -> Panel:
    """The panel of one step of one environment.

    Args:
        step: of the episode, from 0.
        reward: of the step before.
        total: the return so far.
        action: that is taken, without batch dimension, as everything below.
        action_spec: its specs.
        explanation: what the algorithm thinks.
    """
    numbers = [("step", f"{step:,}"), ("reward", f"{reward:.2f}"), ("return", f"{total:.2f}")]
    for name, thought in (("value", explanation.value), ("Q of action", explanation.action_value)):
        if nest.leaves(thought):
            numbers.append((name, "  ".join(f"{number:.2f}" for number in thought.flatten().tolist())))
    return Panel(tuple(numbers), tuple(_charts(action, action_spec, explanation)))


def _charts(action: Nest, action_spec: Nest, explanation: Explanation) -> Iterator[Chart]:
    policies = nest.named_leaves(explanation.policy)
    values = nest.named_leaves(action)
    for name, spec in nest.named_leaves(action_spec).items():
        policy, taken = policies.get(name), values[name]
        if not spec.is_discrete:
            yield _continuous(name, spec, taken, policy)
            continue
        index = (taken - torch.tensor(spec.minimum)).long()
        if policy is not None:
            yield _probabilities(name, spec, index, policy)
        if nest.leaves(explanation.q_values) and spec.shape == ():
            yield _q_values(spec, index, explanation.q_values)


def _continuous(name: str, spec: BoundedTensorSpec, taken: torch.Tensor, policy: torch.Tensor | None) -> Chart:
    actions = taken.flatten().tolist()
    ends = [None] * len(actions) if policy is None else list(zip(*policy.flatten(1).tolist(), strict=True))
    bounds = zip(spec.minimum.flatten().tolist(), spec.maximum.flatten().tolist(), strict=True)
    bars = []
    for index, (value, (low, high), spread) in enumerate(zip(actions, bounds, ends, strict=True)):
        if not np.isfinite([low, high]).all():
            high = max(1.0, abs(value), *(abs(end) for end in spread or ()))
            low = -high
        bars.append(Bar(str(index), value, low, high, is_chosen=True, spread=spread))
    return Chart(_titled("action", name), tuple(bars[:_MOST_BARS]))


def _probabilities(name: str, spec: BoundedTensorSpec, index: torch.Tensor, policy: torch.Tensor) -> Chart:
    """Of every choice; when the action has several elements, of the choices that are taken."""
    first = spec.minimum.astype(int)
    if spec.shape == ():
        numbered = enumerate(policy.tolist())
        bars = [Bar(str(first + i), chance, 0.0, 1.0, i == int(index)) for i, chance in numbered]
    else:
        chances = policy.gather(-1, index.unsqueeze(-1)).flatten().tolist()
        taken = (index.numpy() + first).flatten().tolist()
        bars = [Bar(f"{i}: {choice}", chances[i], 0.0, 1.0, is_chosen=True) for i, choice in enumerate(taken)]
    return Chart(_titled("probability of action", name), tuple(bars[:_MOST_BARS]))


def _q_values(spec: BoundedTensorSpec, index: torch.Tensor, q_values: torch.Tensor) -> Chart:
    values = q_values.tolist()
    allowed = [value for value in values if value > MASKED_LOGIT / 2]
    # The scale reaches to 0 unless all values are far from it: then their differences are what matters.
    low, high = min(allowed), max(allowed)
    if high - low > 0.2 * max(abs(low), abs(high)):
        low, high = min(low, 0.0), max(high, 0.0)
    else:
        margin = max(high - low, 1e-6)
        low, high = low - margin, high + margin
    first = int(spec.minimum)
    bars = [
        Bar(str(first + i), value, low, high, i == int(index)) for i, value in enumerate(values) if value in allowed
    ]
    return Chart("Q of action", tuple(bars[:_MOST_BARS]))


def _titled(title: str, leaf: str) -> str:
    return f"{title} {leaf}" if leaf else title

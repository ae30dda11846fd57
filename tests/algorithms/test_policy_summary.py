from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.algorithms.policy_summary import summarize_policy
from alfish.networks.distributions import Categorical, DiagonalNormal, Joint, SquashedNormal
from alfish.progress import Progress
from alfish.specs import BoundedTensorSpec
from alfish.summary.summary import Summary

NORMAL = DiagonalNormal(torch.tensor([[[1.0, -2.0], [3.0, -4.0]]]), torch.tensor([[[1.0, 2.0], [1.0, 4.0]]]))
CHOICE = Categorical(torch.tensor([[[0.0, 0.0], [0.0, -1e9]]]))  # probabilities (0.5, 0.5) and (1, 0)


class Histograms:
    """A writer that remembers histograms."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def scalars(self, moment: Any, values: dict[str, float]) -> None: ...

    def histogram(self, moment: Any, tag: str, values: Any) -> None:
        self.values[tag] = values.tolist()


def summarized(policy: Any) -> tuple[dict[str, float], dict[str, Any]]:
    writer = Histograms()
    summary = Summary([writer], Progress())
    summary.enabled = True
    summarize_policy(summary, policy)
    scalars = summary.write()
    assert all(tag.startswith("ActionDistribution/") for tag in scalars)
    return {tag.removeprefix("ActionDistribution/"): value for tag, value in scalars.items()}, writer.values


def test_normals_have_means_and_standard_deviations():
    scalars, histograms = summarized(NORMAL)
    entropy = NORMAL.entropy().mean().item()
    assert scalars == pytest.approx({"entropy": entropy, "mean/0": 2, "mean/1": -3, "std/0": 1, "std/1": 3})
    assert histograms == {
        "ActionDistribution/mean": [[[1.0, -2.0], [3.0, -4.0]]],
        "ActionDistribution/std": [[[1.0, 2.0], [1.0, 4.0]]],
    }


def test_the_mean_of_a_squashed_normal_is_in_units_of_the_action():
    make = SquashedNormal.for_spec(BoundedTensorSpec((1,), minimum=0.0, maximum=10.0))
    scalars, _ = summarized(make(torch.zeros(3, 4, 1), torch.full((3, 4, 1), 0.5)))
    assert (scalars["mean"], scalars["std"]) == (5.0, 0.5)


def test_choices_have_probabilities():
    scalars, histograms = summarized(CHOICE)
    assert scalars == pytest.approx(
        {"entropy": torch.tensor(2.0).log().item() / 2, "probability/0": 0.75, "probability/1": 0.25}
    )
    assert histograms == {"ActionDistribution/probability": [[[0.5, 0.5], [1.0, 0.0]]]}


def test_several_choices_have_the_probabilities_of_each():
    make = Categorical.for_spec(BoundedTensorSpec((2,), torch.int64, 0, 2))
    scalars, _ = summarized(make(torch.zeros(5, 4, 2, 3)))
    expected = {f"probability/{index}": 1 / 3 for index in range(6)}
    assert {tag: value for tag, value in scalars.items() if tag != "entropy"} == pytest.approx(expected)


def test_mixed_actions_are_taken_apart():
    scalars, histograms = summarized(Joint({"move": (CHOICE, NORMAL), "look": NORMAL}))
    assert {tag.rpartition("/")[0] for tag in histograms} == {
        f"ActionDistribution/{name}" for name in ("move.0", "move.1", "look")
    }
    assert scalars["move.0/probability/0"] == 0.75
    assert scalars["look/mean/1"] == -3.0


def test_many_elements_have_one_mean():
    scalars, _ = summarized(DiagonalNormal(torch.ones(2, 3, 100), torch.ones(2, 3, 100)))
    assert sorted(scalars) == ["entropy", "mean", "std"]


def test_scalar_actions_have_one_element():
    make = DiagonalNormal.for_spec(BoundedTensorSpec(()))
    scalars, _ = summarized(make(torch.ones(2, 3), torch.full((2, 3), 2.0)))
    assert (scalars["mean"], scalars["std"]) == (1.0, 2.0)


def test_nothing_is_computed_while_nothing_is_written(monkeypatch):
    computed = []
    monkeypatch.setattr(DiagonalNormal, "entropy", lambda self: computed.append(self) or torch.zeros(2, 3))
    distribution = DiagonalNormal(torch.ones(2, 3, 1), torch.ones(2, 3, 1))
    summarize_policy(Summary.disabled(), distribution)
    assert computed == []
    summarized(distribution)
    assert len(computed) == 1

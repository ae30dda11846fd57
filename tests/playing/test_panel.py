from __future__ import annotations

import pytest
import torch

from alfish.algorithms.explanation import Explanation
from alfish.playing.panel import Bar, Panel, make_panel
from alfish.specs import BoundedTensorSpec

CHOICE = BoundedTensorSpec((), torch.int64, minimum=1, maximum=3)
TORQUE = BoundedTensorSpec((2,), minimum=-2.0, maximum=2.0)


def panel(action, spec, **thoughts) -> Panel:
    return make_panel(1234, -0.5, 17.25, action, spec, Explanation(**thoughts))


def test_step_reward_and_return_are_always_there():
    shown = panel(torch.tensor(2), CHOICE)
    assert shown == Panel((("step", "1,234"), ("reward", "-0.50"), ("return", "17.25")))


def test_values_are_told_as_numbers():
    assert panel(torch.tensor(2), CHOICE, value=torch.tensor(3.456)).numbers[3:] == (("value", "3.46"),)
    assert panel(torch.tensor(2), CHOICE, value=torch.tensor([1.0, 2.0])).numbers[3:] == (("value", "1.00  2.00"),)
    assert panel(torch.tensor(2), CHOICE, action_value=torch.tensor(9.0)).numbers[3:] == (("Q of action", "9.00"),)


def test_probabilities_are_bars_from_0_to_1_and_the_taken_action_stands_out():
    (chart,) = panel(torch.tensor(2), CHOICE, policy=torch.tensor([0.25, 0.5, 0.25])).charts
    assert chart.title == "probability of action"
    assert chart.bars == (Bar("1", 0.25, 0, 1), Bar("2", 0.5, 0, 1, is_chosen=True), Bar("3", 0.25, 0, 1))


def test_q_values_share_a_scale_that_reaches_to_0():
    (chart,) = panel(torch.tensor(3), CHOICE, q_values=torch.tensor([-1.0, 1.0, 4.0])).charts
    assert {(bar.low, bar.high) for bar in chart.bars} == {(-1.0, 4.0)}
    (chart,) = panel(torch.tensor(3), CHOICE, q_values=torch.tensor([1.0, 2.0, 4.0])).charts
    assert {(bar.low, bar.high) for bar in chart.bars} == {(0.0, 4.0)}
    assert [bar.label for bar in chart.bars if bar.is_chosen] == ["3"]


def test_q_values_that_are_close_to_each_other_can_be_told_apart():
    (chart,) = panel(torch.tensor(3), CHOICE, q_values=torch.tensor([100.0, 101.0, 102.0])).charts
    assert {(bar.low, bar.high) for bar in chart.bars} == {(98.0, 104.0)}
    (chart,) = panel(torch.tensor(3), CHOICE, q_values=torch.tensor([5.0, 5.0, 5.0])).charts
    assert all(bar.low < bar.value < bar.high for bar in chart.bars)


def test_actions_that_are_not_allowed_are_left_out():
    (chart,) = panel(torch.tensor(3), CHOICE, q_values=torch.tensor([1.0, -1e9, 4.0])).charts
    assert [bar.label for bar in chart.bars] == ["1", "3"]


def test_a_continuous_action_lies_within_its_bounds_with_its_spread():
    ends = torch.tensor([[-1.0, 0.5], [0.0, 1.5]])
    (chart,) = panel(torch.tensor([-0.5, 1.0]), TORQUE, policy=ends).charts
    assert chart.bars == (
        Bar("0", -0.5, -2.0, 2.0, is_chosen=True, spread=(-1.0, 0.0)),
        Bar("1", 1.0, -2.0, 2.0, is_chosen=True, spread=(0.5, 1.5)),
    )
    (chart,) = panel(torch.tensor([-0.5, 1.0]), TORQUE).charts
    assert [bar.spread for bar in chart.bars] == [None, None]


def test_without_bounds_the_scale_holds_what_is_shown():
    spec = BoundedTensorSpec((1,), minimum=-float("inf"), maximum=float("inf"))
    (chart,) = panel(torch.tensor([3.0]), spec, policy=torch.tensor([[2.0], [5.0]])).charts
    assert (chart.bars[0].low, chart.bars[0].high) == (-5.0, 5.0)


def test_nested_actions_have_a_chart_each_and_several_choices_a_bar_each():
    spec = {"gear": CHOICE, "torque": TORQUE}
    charts = panel({"gear": torch.tensor(1), "torque": torch.zeros(2)}, spec, policy={"gear": torch.ones(3) / 3}).charts
    assert [chart.title for chart in charts] == ["probability of action gear", "action torque"]
    several = BoundedTensorSpec((2,), torch.int64, minimum=0, maximum=1)
    chances = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    (chart,) = panel(torch.tensor([1, 0]), several, policy=chances).charts
    assert [(bar.label, bar.value) for bar in chart.bars] == [("0: 1", 0.75), ("1: 0", 0.5)]


def test_many_actions_are_cut_off():
    spec = BoundedTensorSpec((), torch.int64, minimum=0, maximum=99)
    (chart,) = panel(torch.tensor(0), spec, policy=torch.full((100,), 0.01)).charts
    assert len(chart.bars) == 20
    assert chart.bars[0].value == pytest.approx(0.01)

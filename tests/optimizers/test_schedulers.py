from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from alfish.errors import ConfigError
from alfish.optimizers.schedulers import (
    ConstantScheduler,
    CosineScheduler,
    CyclicalScheduler,
    ExponentialScheduler,
    LinearScheduler,
    StepScheduler,
    as_scheduler,
    is_zero,
)
from alfish.progress import Progress

HERE = Progress(iterations=3, env_steps=40, updates=12, fraction=0.25)


@pytest.mark.parametrize(
    ("progress_type", "position"),
    [("percent", 0.25), ("iterations", 3), ("env_steps", 40), ("updates", 12), ("global_counter", 3)],
)
def test_each_progress_type_reads_its_counter(progress_type, position):
    horizon = 1.0 if progress_type == "percent" else 100.0
    scheduler = LinearScheduler(progress_type, [(0, 0.0), (horizon, horizon)])
    assert scheduler(HERE) == pytest.approx(position)


def test_numbers_become_schedulers_and_schedulers_stay():
    assert as_scheduler(3)(HERE) == 3.0
    assert as_scheduler(3).final_value() == 3.0
    linear = LinearScheduler("percent", [(0, 1.0), (1, 0.0)])
    assert as_scheduler(linear) is linear


def values(scheduler, positions):
    return [scheduler(replace(HERE, iterations=position)) for position in positions]


def test_step_values_hold_until_their_progress_is_reached():
    scheduler = StepScheduler("iterations", [(2, 1.0), (5, 0.1), (6, 0.01)])
    assert values(scheduler, range(8)) == [1.0, 1.0, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01]
    assert scheduler.final_value() == 0.01


def test_step_warm_up_grows_from_zero():
    scheduler = StepScheduler("iterations", [(3, 8.0), (9, 4.0)], warm_up_period=4)
    assert values(scheduler, range(6)) == [0.0, 2.0, 4.0, 3.0, 4.0, 4.0]


def test_linear_values_lie_on_the_lines_between_the_points():
    scheduler = LinearScheduler("iterations", [(0, 1.0), (4, 0.0), (6, 3.0)])
    assert values(scheduler, range(8)) == [1.0, 0.75, 0.5, 0.25, 0.0, 1.5, 3.0, 3.0]
    assert scheduler.final_value() == 3.0


@pytest.mark.parametrize(
    "scheduler",
    [
        StepScheduler("iterations", [(2, 1.0), (5, 0.1), (6, 0.01)], warm_up_period=1),
        LinearScheduler("iterations", [(0, 1.0), (4, 0.0), (6, 3.0)]),
        ExponentialScheduler("iterations", 1.0, 0.5, 2.0),
        CyclicalScheduler("iterations", 0.0, 1.0, 3, "linear"),
        CosineScheduler("iterations", 1.0, 0.1, 10, 2),
    ],
)
def test_going_back_gives_the_values_of_before(scheduler):
    forward = values(scheduler, range(12))
    assert values(scheduler, reversed(range(12))) == forward[::-1]


def test_exponential_values_and_where_they_tend_to():
    scheduler = ExponentialScheduler("iterations", 8.0, 0.5, 2)
    assert values(scheduler, [0, 2, 4, 6]) == [8.0, 4.0, 2.0, 1.0]
    assert values(scheduler, [1]) == [pytest.approx(8 / math.sqrt(2))]
    assert scheduler.final_value() == 0.0
    assert ExponentialScheduler("percent", 8.0, 0.5, 0.5).final_value() == 2.0


STEP = {1: [0, 1, 0, 1, 0, 1, 0, 1, 0, 1], 2: [0, 0, 1, 1, 0, 0, 1, 1, 0, 0], 3: [0, 0, 0, 1, 1, 1, 0, 0, 0, 1]}
LINEAR = {
    1: [0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
    2: [0, 0.5, 1, 0.5, 0, 0.5, 1, 0.5, 0, 0.5],
    3: [0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3, 0, 1 / 3, 2 / 3, 1],
}


@pytest.mark.parametrize("half_cycle", [1, 2, 3])
@pytest.mark.parametrize(("mode", "table"), [("step", STEP), ("linear", LINEAR)])
@pytest.mark.parametrize("progress_type", ["iterations", "env_steps", "percent"])
def test_cyclical_values_in_both_directions(half_cycle, mode, table, progress_type):
    scale = 0.1 if progress_type == "percent" else 1
    up = CyclicalScheduler(progress_type, 0.0, 1.0, half_cycle * scale, mode)
    down = CyclicalScheduler(progress_type, 1.0, 0.0, half_cycle * scale, mode)
    field = "fraction" if progress_type == "percent" else progress_type
    moments = [replace(HERE, **{field: step * scale}) for step in range(10)]
    assert [up(moment) for moment in moments] == pytest.approx(table[half_cycle], abs=1e-12)
    assert [down(moment) for moment in moments] == pytest.approx([1 - v for v in table[half_cycle]], abs=1e-12)


def test_cyclical_final_value_needs_a_known_end():
    assert CyclicalScheduler("percent", 0.0, 1.0, 0.5).final_value() == 0.0
    with pytest.raises(ConfigError, match="progress_type = 'percent'"):
        CyclicalScheduler("iterations", 0.0, 1.0, 5).final_value()


def test_cosine_values():
    scheduler = CosineScheduler("iterations", 1.0, 0.2, decay_time=4)
    assert values(scheduler, [0, 2, 4, 9]) == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert values(scheduler, [1]) == pytest.approx([0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2])
    assert scheduler.final_value() == pytest.approx(0.2)


def test_cosine_warm_up_is_part_of_the_decay_time():
    scheduler = CosineScheduler("iterations", 1.0, 0.0, decay_time=6, warm_up_period=2)
    assert values(scheduler, [0, 1, 2, 4, 6]) == pytest.approx([0.0, 0.5, 1.0, 0.5, 0.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StepScheduler("iteration", [(1, 1.0)]), "StepScheduler.progress_type = 'iteration'.*'iterations'"),
        (lambda: StepScheduler("iterations", []), "at least 1"),
        (lambda: LinearScheduler("iterations", [(0, 1.0)]), "at least 2"),
        (lambda: LinearScheduler("iterations", [(1, 1.0), (2, 1.0)]), "first progress must be 0"),
        (lambda: LinearScheduler("iterations", [(0, 1.0), (5, 0.5), (3, 0.0)]), "but 3 follows 5"),
        (lambda: StepScheduler("iterations", [(2, 1.0), (2, 0.5)]), "but 2 follows 2"),
        (lambda: StepScheduler("iterations", [0.5, 1.0]), "write \\(progress, value\\) pairs"),
        (lambda: StepScheduler("iterations", [(1, math.nan)]), "finite"),
        (lambda: LinearScheduler("percent", [(0, 1.0), (50, 0.0)]), "'percent' counts from 0 to 1"),
        (lambda: CyclicalScheduler("iterations", 0.0, 1.0, 2, "stairs"), "'step' or 'linear'"),
        (lambda: CosineScheduler("percent", 1.0, 0.0, 0.5, 0.5), "warm_up_period = 0.5 leaves nothing"),
        (lambda: CosineScheduler("percent", 1.0, 0.0, 1000), "'percent' counts from 0 to 1"),
    ],
)
def test_wrong_schedules_are_refused_by_name(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_constant_reads_as_its_number():
    assert repr(ConstantScheduler(3e-4)) == "0.0003"


def test_numbers_can_be_zero_and_the_tensors_of_graphs_cannot() -> None:
    assert is_zero(0.0)
    assert is_zero(0)
    assert not is_zero(0.1)
    standing_for_a_number: Any = torch.zeros(())
    assert not is_zero(standing_for_a_number)

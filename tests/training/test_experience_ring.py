from __future__ import annotations

import os
import threading
from multiprocessing import Pipe
from multiprocessing.connection import wait

import torch

from alfish import nest
from alfish.training.experience_ring import Row, make_ring
from alfish.types import StepType, TimeStep, replace
from tests.training.fake_worker import row, time_step

PATIENCE = 20.0  # seconds that a busy machine may take


def numbers(rows: Row) -> list[float]:
    return [float(value) for value in rows.time_step.observation[:, 0, 0]]


def test_rows_come_in_their_order_round_after_round() -> None:
    writer, reader = make_ring(row([0.0]), 3)
    _ours, theirs = Pipe()
    taken = []
    for number in range(0, 8, 2):
        writer.put(row([number]))
        writer.put(row([number + 1]))
        assert reader.available == 2
        taken += numbers(reader.take(2))
        assert writer.wait_for_space(theirs)
    assert taken == list(range(8))
    assert reader.num_announced == 8


def test_what_is_taken_equals_what_was_put_in_every_leaf() -> None:
    observation = {"camera": torch.arange(12, dtype=torch.uint8).reshape(2, 3, 2), "mask": torch.tensor([True, False])}
    put = replace(
        row([1.0, 2.0], StepType.LAST, version=5),
        state=(torch.randn(2, 4, dtype=torch.float64),),
        time_step=replace(time_step([1.0, 2.0], StepType.LAST), observation=observation),
    )
    writer, reader = make_ring(put, 2)
    writer.open_with(put.time_step)
    writer.put(put)
    taken = reader.take(1)
    assert nest.same_structure(taken, put)
    for got, expected in zip(nest.leaves(taken), nest.leaves(put), strict=True):
        assert got.dtype == expected.dtype
        assert torch.equal(got[0], expected)
    opening: TimeStep = reader.opening()
    assert torch.equal(opening.observation["camera"], observation["camera"])


def test_what_was_taken_does_not_change_when_its_place_is_used_again() -> None:
    writer, reader = make_ring(row([0.0]), 1)
    _ours, theirs = Pipe()
    writer.put(row([1.0]))
    taken = reader.take(1)
    assert writer.wait_for_space(theirs)
    writer.put(row([2.0]))
    assert numbers(taken) == [1.0]


def test_a_full_ring_makes_the_writer_wait_until_a_row_is_taken() -> None:
    writer, reader = make_ring(row([0.0]), 2)
    ours, theirs = Pipe()
    answers: list[bool] = []

    def write() -> None:
        for number in range(3):
            answers.append(writer.wait_for_space(theirs))
            writer.put(row([number]))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    while not reader.is_full:
        assert wait([reader.announced], PATIENCE)
    assert reader.num_announced == 2
    assert numbers(reader.take(1)) == [0.0]
    thread.join(PATIENCE)
    assert answers == [True, True, True]
    assert numbers(reader.take(2)) == [1.0, 2.0]
    ours.close()


def test_taken_rows_are_given_back_by_the_eighth_of_the_ring_or_when_asked_for() -> None:
    writer, reader = make_ring(row([0.0]), 16)
    ours, theirs = Pipe()
    for number in range(16):
        writer.put(row([number]))
    ours.close()  # so that a writer does not wait
    reader.take(1)
    assert reader.is_full, "as the writer sees it"
    assert not writer.wait_for_space(theirs)
    reader.give_back()
    assert not reader.is_full
    assert wait([writer._returned], PATIENCE)
    reader.take(2)
    assert len(os.read(writer._returned.fileno(), 100)) == 3


def test_waiting_for_space_ends_with_the_pipe() -> None:
    writer, _reader = make_ring(row([0.0]), 1)
    ours, theirs = Pipe()
    writer.put(row([1.0]))
    ours.close()
    assert not writer.wait_for_space(theirs)


def test_the_reader_can_wait_for_the_end_of_the_writer_and_still_take_its_rows() -> None:
    writer, reader = make_ring(row([0.0]), 4)
    writer.put(row([1.0]))
    writer.close()
    assert wait([reader.announced], PATIENCE)
    assert reader.available == 1
    assert wait([reader.announced], PATIENCE), "the end of a pipe stays visible"
    assert numbers(reader.take(1)) == [1.0]


def test_late_steps_are_counted_on_the_other_side() -> None:
    writer, reader = make_ring(row([0.0]), 1)
    assert reader.late_steps == 0
    writer.count_late_step()
    writer.count_late_step()
    assert reader.late_steps == 2

from __future__ import annotations

import os
from multiprocessing.connection import Connection

import numpy as np

from alfish.child import Child
from alfish.environments.shared_rows import Layout, SharedRows

LAYOUT = Layout(
    num_rows=3,
    observation=(((2,), np.dtype(np.float32)), ((), np.dtype(np.int64))),
    action=(((1,), np.dtype(np.float64)),),
    reward_shape=(2,),
    num_infos=0,
)


def write(pipe: Connection, rows: SharedRows, row: int) -> None:
    rows.observations[0][row] = rows.actions[0][row]
    rows.observations[1][row] = row
    rows.rewards[row] = 7
    rows.ends[row] = 2
    pipe.send(rows.layout)


def test_arrays_do_not_overlap() -> None:
    rows = SharedRows(LAYOUT)
    assert rows.infos.shape == (3, 0)
    arrays = [*rows.observations, *rows.actions, rows.rewards, rows.ends]
    for number, array in enumerate(arrays):
        array[...] = number + 1
    for number, array in enumerate(arrays):
        assert (array == number + 1).all()


def test_a_child_writes_what_its_parent_reads_and_the_memory_has_no_name() -> None:
    before = sorted(os.listdir("/dev/shm"))  # noqa: S108
    rows = SharedRows(LAYOUT)
    rows.actions[0][1] = 0.5
    child = Child("the writer", write, (rows, 1))
    assert child.receive(60) == LAYOUT
    assert sorted(os.listdir("/dev/shm")) == before  # noqa: S108
    child.kill()
    assert rows.observations[0].tolist() == [[0, 0], [0.5, 0.5], [0, 0]]
    assert rows.observations[1].tolist() == [0, 1, 0]
    assert rows.rewards.tolist() == [[0, 0], [7, 7], [0, 0]]
    assert rows.ends.tolist() == [0, 2, 0]

from __future__ import annotations

from alfish.summary.csv_file import CsvWriter
from alfish.summary.writer import Moment


def at(iterations: int) -> Moment:
    return Moment(iterations, 10 * iterations, iterations / 3)


def test_rows_and_columns_that_come_later(tmp_path):
    path = tmp_path / "run" / "progress.csv"
    writer = CsvWriter(path)
    writer.scalars(at(1), {"loss": 0.5})
    writer.scalars(at(2), {"loss": 0.25, 'odd,"name"': 2.0})
    writer.scalars(at(3), {'odd,"name"': float("nan")})
    assert path.read_text().splitlines() == [
        'iterations,env_steps,seconds,loss,"odd,""name"""',
        "1,10,0.333,0.5,",
        "2,20,0.667,0.25,2.0",
        "3,30,1.0,,nan",
    ]
    assert [each.name for each in path.parent.iterdir()] == ["progress.csv"]


def test_an_existing_table_is_continued(tmp_path):
    path = tmp_path / "progress.csv"
    CsvWriter(path).scalars(at(1), {"loss": 0.5})
    CsvWriter(path).scalars(at(2), {"loss": 0.25})
    assert path.read_text() == "iterations,env_steps,seconds,loss\n1,10,0.333,0.5\n2,20,0.667,0.25\n"


def test_a_line_that_a_kill_left_unfinished_is_dropped(tmp_path):
    path = tmp_path / "progress.csv"
    CsvWriter(path).scalars(at(1), {"loss": 0.5})
    with path.open("a") as file:
        file.write("2,20,0.6")
    CsvWriter(path).scalars(at(3), {"loss": 0.25})
    assert path.read_text() == "iterations,env_steps,seconds,loss\n1,10,0.333,0.5\n3,30,1.0,0.25\n"


def test_a_resumed_run_cuts_what_came_after_its_checkpoint(tmp_path):
    path = tmp_path / "progress.csv"
    writer = CsvWriter(path)
    for iteration in (1, 2):
        writer.scalars(at(iteration), {"loss": 1.0})
    state = writer.state_dict()
    for iteration in (3, 4):
        writer.scalars(at(iteration), {"loss": 1.0, "extra": 5.0})
    resumed = CsvWriter(path)
    resumed.load_state_dict(state)
    resumed.scalars(at(3), {"loss": 2.0})
    assert path.read_text().splitlines() == [
        "iterations,env_steps,seconds,loss,extra",
        "1,10,0.333,1.0,",
        "2,20,0.667,1.0,",
        "3,30,1.0,2.0,",
    ]
    assert resumed.state_dict() == {"num_rows": 3}


def test_updates_have_a_table_of_their_own(tmp_path):
    iterations, updates = CsvWriter(tmp_path / "i.csv"), CsvWriter(tmp_path / "u.csv", of_updates=True)
    for writer in (iterations, updates):
        writer.scalars(Moment(1, 10, 0.5), {"return": 2.0})
        writer.scalars(Moment(2, 10, 0.5, update=7), {"loss": 1.0})
    assert (tmp_path / "i.csv").read_text() == "iterations,env_steps,seconds,return\n1,10,0.5,2.0\n"
    assert (tmp_path / "u.csv").read_text() == "updates,iterations,env_steps,seconds,loss\n7,2,10,0.5,1.0\n"

from __future__ import annotations

from pathlib import Path

import pytest

from alfish.training.option_history import OptionHistory, change_lines, option_changes
from alfish.training.run_folder import RunFolder

BEFORE = """LR = 0.1  # a.gin:1

Adam.lr = %LR  # a.gin:2
PPOLoss.gamma = 0.99  # default
TrainerConfig.random_seed = None  # default
"""


def lines(old: str, new: str, seed: int | None = None) -> list[str]:
    return [str(change) for change in option_changes(old, new, seed)]


def test_a_change_is_told_with_both_values_and_the_place_of_the_new_one():
    now = BEFORE.replace("0.1  # a.gin:1", "0.2  # command line").replace("0.99  # default", "0.5  # b.gin:7")
    assert lines(BEFORE, now) == ["LR: 0.1 -> 0.2 (command line)", "PPOLoss.gamma: 0.99 -> 0.5 (b.gin:7)"]


def test_another_place_alone_is_no_change():
    assert lines(BEFORE, BEFORE.replace("a.gin:2", "elsewhere.gin:9")) == []


def test_what_only_one_of_them_used_is_told_last():
    other = BEFORE.replace("Adam.lr = %LR", "SGD.lr = %LR").replace("0.99  # default", "0.5  # b.gin:7")
    assert lines(BEFORE, other) == [
        "PPOLoss.gamma: 0.99 -> 0.5 (b.gin:7)",
        "Adam.lr: %LR -> not used so far",
        "SGD.lr: not used -> %LR (a.gin:2)",
    ]


def test_what_evaluation_has_not_used_yet_is_no_change():
    evaluated = f"{BEFORE}eval/create_environment.backend = 'sync'  # default\n"
    assert lines(evaluated, BEFORE) == lines(BEFORE, evaluated) == []
    assert lines(evaluated, evaluated.replace("sync", "process")) == [
        "eval/create_environment.backend: 'sync' -> 'process' (default)"
    ]


def test_the_seed_that_was_drawn_is_no_change():
    chosen = BEFORE.replace("seed = None", "seed = 7")
    assert lines(BEFORE, chosen, seed=7) == lines(chosen, BEFORE, seed=7) == []
    assert lines(BEFORE, chosen, seed=8) == ["TrainerConfig.random_seed: 8 -> 7 (default)"]


def test_long_values_and_long_lists_are_cut():
    now = BEFORE.replace("0.99", "9" * 100)
    (line,) = lines(BEFORE, now)
    assert len(line) < 100
    many = option_changes("", "\n".join(f"A.x{i} = 1  # default" for i in range(30)))
    assert change_lines(many).splitlines()[-1].strip() == "and 10 more"


@pytest.fixture
def history(tmp_path: Path) -> OptionHistory:
    return OptionHistory(RunFolder(tmp_path))


def begin(history: OptionHistory, iteration: int, is_changed: bool, text: str) -> None:
    history.begin(iteration, is_changed)
    history.write(text)


def test_every_version_is_kept_from_where_it_began(history, tmp_path):
    begin(history, 0, False, "A.x = 1  # default\n")
    begin(history, 10, False, "A.x = 1  # default\n")
    begin(history, 20, True, "A.x = 2  # a.gin:1\n")
    begin(history, 30, True, "A.x = 3  # a.gin:1\n")
    assert history.iterations() == [0, 20, 30]
    assert (tmp_path / "operative-000020.gin").read_text() == "A.x = 2  # a.gin:1\n"
    assert history.current() == "A.x = 3  # a.gin:1\n"
    changes = {at: [str(change) for change in each] for at, each in history.changes(None).items()}
    assert changes == {20: ["A.x: 1 -> 2 (a.gin:1)"], 30: ["A.x: 2 -> 3 (a.gin:1)"]}


def test_what_is_known_later_is_added_to_the_version_that_holds(history, tmp_path):
    begin(history, 0, False, "A.x = 1  # default\n")
    history.begin(5, False)
    history.write("A.x = 1  # default\nB.y = 2  # default\n")
    assert (tmp_path / "operative-000000.gin").read_text().endswith("B.y = 2  # default\n")
    assert history.iterations() == [0]


def test_versions_of_iterations_that_were_lost_are_removed(history):
    begin(history, 0, False, "A.x = 1  # default\n")
    begin(history, 20, True, "A.x = 2  # a.gin:1\n")
    begin(history, 10, True, "A.x = 3  # a.gin:1\n")
    assert history.iterations() == [0, 10]


def test_a_new_run_has_no_options_yet(history):
    assert history.current() is None
    assert history.iterations() == []
    assert history.changes(None) == {}

from __future__ import annotations

from collections.abc import Callable

from alfish import config
from tests.config.conftest import SAMPLE


def _read(*files: str, bindings: tuple[str, ...] = ()) -> config.Config:
    return config.read(files, bindings, roots=[SAMPLE])


def test_the_last_one_wins_and_remembers(write: Callable[..., str]) -> None:
    write("Plan.num_rounds = 1", "base.gin")
    write("Plan.num_rounds = 3", "later.gin")
    loaded = _read(
        write("include 'base.gin'\nPlan.num_rounds = 2"),
        "later.gin",
        bindings=("Plan.num_rounds=4", "Plan.num_rounds=5"),
    )
    (binding,) = loaded.bindings
    assert (binding.text, str(binding.place)) == ("Plan.num_rounds = 5", "command line")
    assert [(past.value, str(past.place)) for past in binding.past] == [
        ("4", "command line"),
        ("3", "later.gin:1"),
        ("2", "a.gin:2"),
        ("1", "base.gin:1"),
    ]
    assert loaded.warnings == ()


def test_scopes_are_keys_of_their_own(write: Callable[..., str]) -> None:
    loaded = _read(write("Stepper.lr = 1.0\na/Stepper.lr = 2.0\na/b/Stepper.lr = 3.0\nLR = 4\na/LR = 5\n"))
    assert [binding.key for binding in loaded.bindings] == [
        "Stepper.lr",
        "a/Stepper.lr",
        "a/b/Stepper.lr",
        "LR",
        "a/LR",
    ]


def test_an_include_after_a_binding_overrides_it(write: Callable[..., str]) -> None:
    write("Plan.num_rounds = 1", "base.gin")
    assert _read(write("Plan.num_rounds = 2\ninclude 'base.gin'")).where("Plan.num_rounds") == "base.gin:1"


def test_a_base_included_twice_is_no_double_setting(write: Callable[..., str]) -> None:
    write("Plan.num_rounds = 1", "base.gin")
    write("include 'base.gin'", "b.gin")
    assert _read(write("include 'base.gin'\ninclude 'b.gin'")).warnings == ()

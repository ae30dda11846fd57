from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from alfish import config
from alfish.config.record import Config
from alfish.config.sources import shipped_configs
from tests.config.conftest import SAMPLE

Load = Callable[..., Config]
Write = Callable[..., str]


def test_text_shows_origins(write: Write, load: Load) -> None:
    write("Plan.title = 'it''s'\nPlan.num_rounds = 1", "base.gin")
    loaded = load(write("include 'base.gin'\nR = 0.5\nPlan.rate = %R\n"), "Plan.num_rounds=2")
    assert loaded.text == (
        "# alfish 0.1.0 config, flattened\n\n"
        "# base.gin:1\nPlan.title = 'its'\n\n"
        "# a.gin:2\nR = 0.5\n\n"
        "# a.gin:3\nPlan.rate = %R\n\n"
        "# command line\n#   overrides base.gin:2: 1\nPlan.num_rounds = 2\n"
    )


def test_the_text_is_the_config(write: Write, load: Load) -> None:
    first = load(write("Plan.layers = [\n  1,  # one\n  2]\nlast/Stepper.lr = -1e-3\nPlan.title = 'tab\\t\\'\"'\n"))
    again = load(write(first.text, "flat.gin"))
    assert again.digest == first.digest
    assert again.text == first.text
    assert again.where("Plan.layers") == "a.gin:1"


def test_digest_is_about_meaning(write: Write, load: Load) -> None:
    first = load(write("Plan.num_rounds = 3\nPlan.rate = 0.5  # half\n")).digest
    assert load(write("Plan:\n  rate = .5\n  num_rounds = 3.0\n")).digest == first
    assert load(write("Plan.num_rounds = 3\nPlan.rate = 0.25\n")).digest != first
    assert load(write("Plan.num_rounds = 3\nx/Plan.rate = 0.5\n")).digest != first


def test_where(write: Write, load: Load) -> None:
    loaded = load(write("\nPlan.rate = 0.5"), "Plan.quiet=True")
    assert [loaded.where(f"Plan.{name}") for name in ("rate", "quiet", "mode")] == [
        "a.gin:2",
        "command line",
        "default",
    ]


def test_name(write: Write, load: Load) -> None:
    assert load(write("", "conf/ppo_fast.gin")).name == "ppo_fast"
    assert load([]).name == "config"


def test_pickles(write: Write, load: Load) -> None:
    loaded = load(write("Plan.learner_ctor = @a/Learner\nPlan.limit = 1e999\n"), "Plan.quiet=True")
    assert pickle.loads(pickle.dumps(loaded)) == loaded  # noqa: S301


@pytest.mark.parametrize("path", sorted(shipped_configs().rglob("*.gin")), ids=lambda path: path.name)
def test_shipped_configs_are_right_and_survive_flattening(path: Path, folder: Path) -> None:
    loaded = config.read([str(path)])
    (folder / "flat.gin").write_text(loaded.text)
    assert config.read(["flat.gin"]).digest == loaded.digest
    assert loaded.warnings == ()


def test_values_converted_on_reading_are_written_converted(write: Write) -> None:
    loaded = config.read([write("Plan.num_rounds = 1e3")], roots=[SAMPLE])
    assert "Plan.num_rounds = 1000\n" in loaded.text

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from alfish import config
from alfish.config.scan import scan, scan_names
from alfish.config.show import describe_text, explain_text, list_text
from alfish.errors import ConfigError
from tests.config.conftest import SAMPLE

CATALOG = scan([SAMPLE])


def test_list(write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    write("# PPO on CartPole.\n# 500 in a minute.\n# More.\nA = 1\n# No.\n", "shipped/ppo.gin")
    write("A = 1\n", "shipped/atari/plain.gin")
    write("# For including.\n", "shipped/base/x.gin")
    monkeypatch.setattr("alfish.config.show.shipped_configs", lambda: Path("shipped"))
    assert list_text(scan_names([SAMPLE])).splitlines()[:6] == [
        "Configs (alfish train NAME):",
        "  atari/plain.gin",
        "  ppo.gin                      PPO on CartPole.",
        "                               500 in a minute.",
        "",
        "Configurables (alfish describe NAME):",
    ]
    assert "Learner, make_pair, make_world, Plan, Pupil, QuickLearner" in list_text(scan_names([SAMPLE]))


def test_describe() -> None:
    text = describe_text(CATALOG, "Stepper")
    assert text.startswith("Stepper  (class, tests/config/sample/parts.py:")
    assert text.endswith(")\n\n  Steps.\n\n  lr: float, default 0.1\n      step size.")


def test_describe_one_option_and_near_misses() -> None:
    assert "num_rounds" not in describe_text(CATALOG, "Plan.rate")
    assert describe_text(CATALOG, "Plan.rate").endswith(
        "rate: float in (0, 1], default 0.5\n      how fast; in (0, 1]."
    )
    for wrong, message in {
        "Plann": "Plann: no such name. Did you mean Plan?",
        "Plan.rat": "Plan.rat: no such option. Did you mean Plan.rate?",
        "xyzzy": "xyzzy: no such name. See `alfish list`.",
    }.items():
        with pytest.raises(ConfigError) as caught:
            describe_text(CATALOG, wrong)
        assert str(caught.value) == message


def test_explain(write: Callable[..., str]) -> None:
    write("Plan.num_rounds = 1", "base.gin")
    name = write("include 'base.gin'\na/Stepper.lr = 2.0\nR = 1\n")
    loaded = config.read([name], ["Plan.num_rounds=2"], roots=[SAMPLE])
    source = f"tests/config/sample/parts.py:{CATALOG.matching('Plan')[0].line}"
    value = f"Plan.num_rounds = 2\n  command line\n  overrides 1, base.gin:1\n  overrides 1000, default, {source}"
    assert explain_text(loaded, CATALOG, "Plan.num_rounds") == value
    assert explain_text(loaded, CATALOG, "num_rounds") == value
    assert explain_text(loaded, CATALOG, "Plan") == value
    assert explain_text(loaded, CATALOG, "Plan.rate") == f"Plan.rate = 0.5\n  default, {source}"
    assert explain_text(loaded, CATALOG, "R") == "R = 1\n  a.gin:3"
    assert explain_text(loaded, CATALOG, "Stepper.lr").startswith("a/Stepper.lr = 2.0\n  a.gin:2\n")
    assert explain_text(loaded, CATALOG, "Learner") == "Learner: nothing is set; all options have their defaults"
    assert explain_text(loaded, CATALOG, None).count("overrides 1, base.gin:1") == 1
    # The same from the flattened text in a run folder.
    write(loaded.text, "run/config.gin")
    assert explain_text(config.read(["run/config.gin"], roots=[SAMPLE]), CATALOG, "Plan.num_rounds") == value

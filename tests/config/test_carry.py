"""The configuration in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gin
import pytest

from alfish import config
from alfish.config import gin_state
from alfish.config.carry import Carried, carried, operative_keys
from alfish.config.catalog import PACKAGE_ROOT
from alfish.config.record import Config

Load = Callable[..., Config]
Write = Callable[..., str]

SCRIPT = """
import multiprocessing
import gin
from alfish import config
from alfish.config import gin_state

@config.configurable
def from_script(size: int = 3) -> int:
    return size

def work(carried):
    carried.install()
    return from_script()

if __name__ == "__main__":
    loaded = config.load(roots=[])
    with gin.unlock_config():
        gin.bind_parameter("from_script.size", 7)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work, (loaded.carried(),)))
"""


def _worker(package: Carried) -> dict[str, Any]:
    """Runs in the child: installs the config, builds things, reports."""
    before = gin.config_str()
    installed = package.install()
    imported = {"torch", "tests.config.sample.learners"} & set(sys.modules)
    from tests.config.sample.parts import Plan

    plan = Plan()
    learner = plan.learner_ctor()
    return {
        "before": before,
        "imported": imported,
        "digest": installed.digest,
        "where": installed.where("Plan.limit"),
        "lr": learner.stepper.lr,
        "limit": plan.limit,
        "rounds": plan.num_rounds,
        "used": operative_keys(),
    }


def _in_child(package: Carried) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_worker, (pickle.loads(pickle.dumps(package)),))  # noqa: S301


def test_a_spawned_worker_gets_macros_scopes_references_and_infinity(write: Write, load: Load) -> None:
    text = "LR = 0.25\nactor/Stepper.lr = %LR\nLearner.stepper = @actor/Stepper()\nPlan.limit = 1e999\n"
    text += "make_world.size = 9\nPlan.learner_ctor = @Learner\n"
    loaded = load(write(text), "Plan.num_rounds=7")
    result = _in_child(loaded.carried())
    assert (result["before"], result["imported"]) == ("", set())
    assert (result["lr"], result["limit"], result["rounds"]) == (0.25, float("inf"), 7)
    assert (result["digest"], result["where"]) == (loaded.digest, "a.gin:4")

    assert len(config.inoperative_lines()) == 7
    config.merge_operative(result["used"])
    assert config.inoperative_lines() == ["a.gin:5: make_world.size was never used (make_world was never built)"]
    assert "Plan.num_rounds = 7  # command line\nPlan.quiet = False  # default\n" in config.operative_text()
    assert "actor/Stepper.lr = %LR  # a.gin:2\n" in config.operative_text()


def test_bindings_made_in_python_travel_too(load: Load) -> None:
    loaded = load([], "Plan.num_rounds=7")
    with gin.unlock_config():
        gin.bind_parameter("Plan.num_rounds", 8)
        gin.bind_parameter("actor/Stepper.lr", 0.5)
        gin.parse_config("Learner.stepper = @actor/Stepper()\nNAME = 'x'")
    package = loaded.carried()
    assert "# Python\nPlan.num_rounds = 8\n" in package.text
    assert "# Python\nactor/Stepper.lr = 0.5\n" in package.text
    assert "# Python\nNAME = 'x'\n" in package.text
    with config.isolated():
        package.install()
        assert gin.get_configurable("Learner")().stepper.lr == 0.5


@pytest.mark.parametrize("value", [object(), len, [object()], float("nan")])
def test_bindings_that_cannot_be_written_are_named(value: Any, load: Load) -> None:
    loaded = load([], "Plan.num_rounds=7")
    with gin.unlock_config():
        gin.bind_parameter("a/Plan.extra", value)
    with pytest.raises(config.ConfigProblems, match=r"^a/Plan.extra: was bound from Python to a "):
        loaded.carried()


def test_a_difference_is_an_error(load: Load) -> None:
    package = load([], "Plan.num_rounds=7").carried()
    tampered = replace(package, text=package.text.replace("= 7", "= 8"))
    with pytest.raises(config.ConfigProblems.__base__, match="not the same in this process as in its parent"):
        tampered.install()


def test_a_script_keeps_its_names_in_workers(folder: Path) -> None:
    """`__main__` is called `__mp_main__` in a spawned worker; bindings of its configurables must still reach it."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT.parent)}
    command = [sys.executable, str(script)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert (result.stdout, result.stderr) == ("7\n", "")


def test_carrying_is_stable(write: Write, load: Load) -> None:
    """A worker may carry the configuration on to its own workers."""
    package = load(write("Plan.learner_ctor = @a/Learner\nPlan.layers = (1, 2)\n")).carried()
    with config.isolated():
        assert carried(package.install()) == package
        with config.isolated():
            config.clear()
        assert gin_state.home_of("Learner") == package.homes["Learner"]
        assert gin_state._PROCESS.homes == package.homes

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gin
import pytest

from alfish import config
from alfish.config.catalog import PACKAGE_ROOT
from alfish.config.record import Config
from tests.config.conftest import SAMPLE


def test_load_installs_and_locks(write: Callable[..., str], load: Callable[..., Config]) -> None:
    loaded = load(write("Plan.num_rounds = 3"), "Plan.rate=0.25")
    plan = gin.get_configurable("Plan")()
    assert (plan.num_rounds, plan.rate) == (3, 0.25)
    assert gin.config_is_locked()
    assert config.current() is loaded


def test_a_second_load_replaces_the_first(load: Callable[..., Config]) -> None:
    load([], "Plan.num_rounds=3")
    load([], "Plan.rate=0.25")
    assert gin.get_configurable("Plan")().num_rounds == 1000


def test_a_bad_config_leaves_the_good_one(load: Callable[..., Config], problems: Callable[..., list[str]]) -> None:
    good = load([], "Plan.num_rounds=3")
    problems([], "Plan.num_rounds=x")
    assert config.current() is good
    assert gin.get_configurable("Plan")().num_rounds == 3


def test_read_touches_nothing(write: Callable[..., str]) -> None:
    config.read([write("Plan.num_rounds = 3")], roots=[SAMPLE])
    assert config.current() is None
    assert gin.config_str() == ""


def test_semantic_problem_of_a_constructor_keeps_its_parts(load: Callable[..., Config]) -> None:
    """gin wraps exceptions of constructors: type and problems must come through."""

    @config.configurable
    def picky_constructor(a: int = 1) -> None:
        raise config.ConfigProblems([config.Problem(("picky_constructor.a",), "is never right")])

    with pytest.raises(config.ConfigProblems) as caught:
        picky_constructor()
    assert caught.value.problems[0].message == "is never right"
    assert caught.value.exit_code == 2


@pytest.fixture
def in_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE_ROOT.parent))


@pytest.mark.usefixtures("in_checkout")
def test_a_bad_config_is_answered_before_torch_is_imported(write: Callable[..., str]) -> None:
    name = write("TrainerConfig.num_iteration = 3\nTrainerConfig.num_iterations = 'ten'\n", "ppo.gin")
    code = f"""
import sys
from alfish import config
from alfish.errors import ConfigError
try:
    config.load([{name!r}])
except ConfigError as error:
    print(error)
sys.exit('torch' in sys.modules or 'gymnasium' in sys.modules or 'numpy' in sys.modules)
"""
    start = time.monotonic()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    assert result.returncode == 0, result.stderr
    assert result.stdout == (
        "2 problems in the configuration\n"
        "  ppo.gin:1: TrainerConfig.num_iteration: no such option. "
        "Did you mean num_iterations (int >= 0, default 1000)?\n"
        "  ppo.gin:2: TrainerConfig.num_iterations: expects int, got str 'ten'.\n"
    )
    assert seconds < 3


@pytest.mark.usefixtures("in_checkout")
def test_loading_registers_everything_without_import_lines(folder: Path) -> None:
    """The catalog, read from source, and gin's registry, filled by importing, hold the same names."""
    code = """
import alfish.config.scan, alfish.config.gin_state
from alfish import config
config.load([], ["multiply.a=2"])
catalog = {entry.selector for entry in alfish.config.scan.scan()}
registered = set(alfish.config.gin_state.registered())
assert catalog == registered, catalog ^ registered
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr

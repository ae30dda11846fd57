"""docs/from_alf.md lists every option of ALF, names only what alfish has, and its ported config trains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

from alfish import cli
from alfish.algorithms.agent import Agent
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config import gin_state
from alfish.config.command import run
from tests.docs.markdown import ROOT, commands, file_block
from tests.docs.porting import Row, parameter, rows, train_block, unknown_names, words

PAGE = ROOT / "docs" / "from_alf.md"
THEIRS, OURS = "alf_ppo_cart_pole.gin", "ppo_cart_pole.gin"
OPTIONS = {field.name for field in fields(TrainerConfig)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_alf(monkeypatch: pytest.MonkeyPatch) -> frozenset[str]:
    """The options with ALF's name, as docs/options.md has them."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import option_names

    return option_names.IN_ALF


def option_rows() -> list[Row]:
    return [row for row in rows(PAGE) if row.section == "The options, one by one"]


def option_names(listed: Iterable[Row]) -> list[str]:
    return [name for row in listed for name in words(row.cells[0])]


def sentence(start: str) -> str:
    """The paragraph that begins with these words."""
    (found,) = re.findall(rf"^{start}.*?$(?=\n\n)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return found


def test_every_option_of_alf_has_one_row(in_alf: frozenset[str]) -> None:
    listed = option_names(option_rows())
    assert len(listed) == len(set(listed))
    assert set(listed) == in_alf


def test_every_row_is_an_option_with_its_default() -> None:
    owners = dict.fromkeys(("env_name", "env_load_fn", "num_parallel_environments"), "create_environment")
    owners["enable_checkpoint"] = "ReplayBuffer"
    for row in option_rows():
        (name,) = words(row.cells[0])
        option = parameter(f"{owners.get(name, 'TrainerConfig')}.{name}")
        assert option is not None, name
        assert row.cells[1] == f"`{option.default_text.removeprefix('default ')}`", name
        assert row.cells[2].endswith("."), name


def test_every_name_on_the_right_exists() -> None:
    assert unknown_names(row.cells[-1] for row in rows(PAGE)) == []


def test_what_only_one_of_both_has_is_told_rightly(in_alf: frozenset[str]) -> None:
    theirs = set(words(sentence("Of the options that ALF's source has")))
    assert len(theirs) == 5
    assert theirs.isdisjoint(OPTIONS)
    own = set(words(sentence("Options that ALF has not")))
    assert own <= OPTIONS - in_alf


def test_alfish_says_what_must_change(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = commands(PAGE)
    Path(THEIRS).write_text(file_block(PAGE, THEIRS))
    gin_state.clear()
    assert run(cli.dispatch, command.line.split()[1:]) == 2
    printed = capsys.readouterr()
    assert printed.err == command.output
    assert len(set(re.findall(rf"{THEIRS}:(\d+): ", printed.err))) == 6  # "Six lines"


def test_the_two_forms_differ_in_nothing_else() -> None:
    theirs, ours = (file_block(PAGE, name).splitlines() for name in (THEIRS, OURS))
    assert set(ours) - set(theirs) == {
        "Agent.optimizer=@Adam()",
        "Adam.lr=1e-3",
        "ActorDistributionNetwork.activation=@tanh",
    }
    gone = [line for line in theirs if line not in ours and not line.startswith("import alf.")]
    assert len(gone) == 6 + 1  # and async_eval


def test_the_ported_config_trains() -> None:
    trainer, result = train_block(PAGE, OURS, "TrainerConfig.num_iterations=3", "TrainerConfig.num_eval_episodes=1")
    assert isinstance(trainer.algorithm, Agent)
    assert isinstance(trainer.algorithm.rl_algorithm, PPOAlgorithm)
    assert result.iterations == 3
    assert result.updates == 3 * 4 * (8 * 32 // 128)
    assert result.evaluation is not None


def test_the_imports_of_alf_may_stay() -> None:
    imports = "".join(line for line in file_block(PAGE, THEIRS).splitlines(keepends=True) if line.startswith("import "))
    Path("imports.gin").write_text(f"{imports}include 'ported.gin'\n")
    Path("ported.gin").write_text(file_block(PAGE, OURS))
    gin_state.clear()
    assert run(cli.dispatch, ["validate", "imports.gin"]) == 0


def test_without_agent_it_learns_the_same() -> None:
    alone = ("TrainerConfig.algorithm_ctor=@PPOAlgorithm", "PPOAlgorithm.optimizer=@Adam()")
    trainer, result = train_block(PAGE, OURS, "TrainerConfig.num_iterations=2", "TrainerConfig.evaluate=False", *alone)
    assert isinstance(trainer.algorithm, PPOAlgorithm)
    assert result.updates == 2 * 4 * (8 * 32 // 128)

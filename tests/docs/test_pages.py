"""The documents are true: links lead somewhere, and commands print what is shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from alfish import cli, evaluate, play, train
from alfish.config import gin_state
from alfish.config.command import run
from tests.docs.markdown import PAGES, ROOT, Command, anchors, blocks, commands, file_block, links

ARCHITECTURE = ROOT / "docs" / "architecture.md"
MAINS = {
    "python -m alfish.train": train.main,
    "python -m alfish.evaluate": evaluate.main,
    "python -m alfish.play": play.main,
    "alfish": cli.dispatch,
}


def shape(output: str) -> str:
    """Output without its numbers, which depend on the budget."""
    return re.sub(r"\d[\d,.]*", "#", output)


def call(command: Command) -> int:
    """Runs a command of the documents in this process, with a tenth of its steps and few evaluation episodes."""
    start = next(start for start in MAINS if command.line.startswith(f"{start} "))
    argv = shlex.split(command.line.removeprefix(start))
    argv = [re.sub(r"(num_env_steps=\d+)0$", r"\1", argument) for argument in argv]
    if start.endswith("train"):
        argv.append("TrainerConfig.num_eval_episodes=20")
    gin_state.clear()
    return run(MAINS[start], argv)


@pytest.mark.parametrize("page", [ROOT / "README.md", ARCHITECTURE], ids=lambda page: page.name)
def test_commands_do_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("q_learning.py", "q_learning.gin"):
        (tmp_path / name).write_text(file_block(ARCHITECTURE, name))
    runnable = [command for command in commands(page) if not command.line.startswith("make ")]
    assert runnable
    for command in runnable:
        expects_error = command.output.startswith("error:")
        code = call(command)
        printed = capsys.readouterr()
        assert code == (2 if expects_error else 0), (command.line, printed.err)
        if expects_error:
            assert printed.err == command.output
        elif command.line.startswith("alfish "):
            assert printed.out == command.output
        elif command.output:
            assert shape(printed.out) == shape(command.output)


def test_the_config_of_the_readme_is_part_of_the_shipped_one() -> None:
    (shown,) = [text for info, text in blocks(ROOT / "README.md") if not info]
    shipped = (ROOT / "configs" / "ppo.gin").read_text().splitlines()
    assert [line for line in shown.splitlines() if line and line not in shipped] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_leads_to_the_code_of_ppo_in_one_hop() -> None:
    assert "alfish/algorithms/ppo.py" in links(ROOT / "README.md")

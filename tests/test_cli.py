"""The console command."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from alfish import __version__, cli, config
from alfish.config.catalog import PACKAGE_ROOT
from alfish.config.command import run
from tests.trained_run import CARTPOLE, train_run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _alfish(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = run(cli.dispatch, argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_describe(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _alfish(capsys, "describe", "TrainerConfig.num_iterations")
    assert (code, err) == (0, "")
    assert "  num_iterations: int >= 0, default 1000\n" in out


def test_list_has_the_shipped_configs_and_the_configurables(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _alfish(capsys, "list")
    assert code == 0
    assert "  ppo.gin " in out
    assert "TrainerConfig" in out
    assert "  optimizers: Adam, AdamW" in out


def test_explain_a_file_and_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.gin").write_text("multiply.a = 3\n")
    code, out, _ = _alfish(capsys, "explain", "a", "multiply.a", "multiply.a=4")
    assert code == 0
    assert out.startswith("multiply.a = 4\n  command line\n  overrides 3, a.gin:1\n  overrides 1, default, ")
    (folder / "run").mkdir()
    (folder / "run/config.gin").write_text(config.read(["a.gin"], ["multiply.a=4"]).text)
    assert _alfish(capsys, "explain", "run", "multiply.a") == (0, out, "")


def test_validate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "good.gin").write_text("multiply.a = 3\nmultiply.a = 4\n")
    (folder / "bad.gin").write_text("multipl.a = 3\n")
    (folder / "worse.gin").write_text("multiply.a = 'x'\n")
    code, out, err = _alfish(capsys, "validate", "good", "bad", "worse")
    assert (code, out) == (2, "good: ok, 1 bindings\n")
    assert err == (
        "warning: good.gin:2: multiply.a: set a second time; the first, at good.gin:1, is lost\n"
        "error: 2 problems in the configuration\n"
        "  bad.gin:1: multipl: no such name. Did you mean multiply?\n"
        "  worse.gin:1: multiply.a: expects float, got str 'x'.\n"
    )


def test_validate_knows_the_environments(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.gin").write_text("create_environment.env_name = 'CartPole-v7'\n")
    code, out, err = _alfish(capsys, "validate", "a")
    assert (code, out) == (2, "")
    assert "a.gin:1: create_environment.env_name: 'CartPole-v7': no such environment. Did you mean CartPole-v1" in err


@pytest.mark.parametrize("name", ["train", "evaluate"])
def test_commands_are_forwarded(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    stand_in = SimpleNamespace(main=lambda argv: given.append(list(argv)) or 7)
    monkeypatch.setitem(sys.modules, f"alfish.{name}", stand_in)  # type: ignore[arg-type]
    assert _alfish(capsys, name, "--help", "ppo", "A.b=1")[0] == 7
    assert given == [["--help", "ppo", "A.b=1"]]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["trian"], 2, "error: trian: no such command. Did you mean `alfish train`?\n"),
        (["xyzzy"], 2, "error: xyzzy: no such command. `alfish --help` lists the commands.\n"),
        (["describe"], 2, "error: usage: alfish describe NAME\n"),
        (["describe", "a", "b"], 2, "error: usage: alfish describe NAME\n"),
        (["list", "--all"], 2, "error: --all: no such flag. usage: alfish list\n"),
        (["validate"], 2, "error: usage: alfish validate CONFIG ...\n"),
    ],
)
def test_mistakes(argv: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _alfish(capsys, *argv) == (code, "", message)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert _alfish(capsys, "--help") == (0, cli.USAGE, "")
    assert _alfish(capsys, "list", "--help") == (0, cli.USAGE, "")
    assert _alfish(capsys) == (2, cli.USAGE, "")
    assert _alfish(capsys, "--version") == (0, f"alfish {__version__}\n", "")


@pytest.mark.parametrize(("argv", "limit"), [(["--help"], 0.5), (["list"], 0.5), (["validate", "bad.gin"], 3.0)])
def test_answers_at_once_and_without_torch(argv: list[str], limit: float, folder: Path) -> None:
    (folder / "bad.gin").write_text("TrainerConfig.num_iteration = 3\n")
    code = f"import sys; from alfish import cli; sys.argv[1:] = {argv}; cli.main(); sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT.parent)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0, result.stderr
    # Processor time: the promise is about alfish, not about what else the machine does meanwhile.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < limit


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    listing = subprocess.Popen(
        [sys.executable, "-c", "import sys; from alfish import cli; sys.argv[1:] = ['list']; sys.exit(cli.main())"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT.parent)},
    )
    assert listing.stdout is not None
    listing.stdout.close()
    assert listing.stderr is not None
    errors = listing.stderr.read()
    listing.wait(timeout=60)
    assert errors == b""
    assert listing.returncode == 128 + signal.SIGPIPE


def test_inspect_and_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_run(folder, name="one")
    train_run(folder, CARTPOLE.replace("0.01", "0.02"), "other")
    code, out, err = _alfish(capsys, "inspect", "one")
    assert (code, err) == (0, "")
    assert "trained     PPOAlgorithm on CartPole-v1\n" in out
    code, out, _ = _alfish(capsys, "inspect", "--json", "one")
    assert [checkpoint["iteration"] for checkpoint in json.loads(out)["checkpoints"]] == [2, 4]
    code, out, err = _alfish(capsys, "diff", "one", "other")
    assert (code, err) == (0, "")
    assert ["Adam.lr", "0.01", "0.02"] in [line.split() for line in out.splitlines()]
    code, out, _ = _alfish(capsys, "diff", "one", "other", "--json")
    assert json.loads(out)["options"]["Adam.lr"] == ["0.01", "0.02"]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["inspect"], 2, "usage: alfish inspect [--json] RUN"),
        (["inspect", "a", "b"], 2, "usage: alfish inspect [--json] RUN"),
        (["inspect", "--jsn", "a"], 2, "--jsn: no such flag"),
        (["inspect", "nowhere"], 6, "nowhere does not exist"),
        (["diff", "a"], 2, "usage: alfish diff [--json] RUN RUN"),
        (["diff", "nowhere", "nowhere"], 6, "nowhere does not exist"),
        (["play"], 2, "--root_dir is missing"),
    ],
)
def test_runs_that_cannot_be_looked_into(
    capsys: pytest.CaptureFixture[str], argv: list[str], code: int, message: str
) -> None:
    got, _, err = _alfish(capsys, *argv)
    assert (got, message in err, "Traceback" in err) == (code, True, False), err

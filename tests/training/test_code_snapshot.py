from __future__ import annotations

from pathlib import Path

import pytest

from alfish.progress import Progress
from alfish.summary.event_file import TensorBoardWriter
from alfish.summary.summary import Summary
from alfish.training import code_snapshot
from alfish.training.code_snapshot import store_code_snapshots
from tests.training.tiny import events


def store(*patterns: str, iteration: int = 0) -> list[str]:
    """The stored files, from the folder of the snapshots."""
    summary = Summary([TensorBoardWriter(Path("run/train"))], Progress())
    stored = store_code_snapshots(patterns, Path("run"), summary, iteration)
    summary.close()
    return [str(path.relative_to("run/snapshots")) for path in stored]


def shown(path: str = "agent.py") -> str:
    (event,) = events("run/train").Tensors(f"code/{path}")
    return event.tensor_proto.string_val[0].decode()


def test_a_file_is_copied_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    Path("agent.py").write_text("x = 1\n")
    assert store("agent.py") == ["agent.py"]
    assert Path("run/snapshots/agent.py").read_text() == "x = 1\n"
    assert shown() == "```py\nx = 1\n```"
    assert not caplog.records


def test_globs_find_files_at_any_depth_each_once_and_none_of_the_run(tmp_path: Path) -> None:
    for name in ("models/a.py", "models/deep/b.py", "models/c.txt", "run/d.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    assert store("models/**/*.py", "models/a.py", "**/*.py") == ["models/a.py", "models/deep/b.py"]


def test_a_name_with_brackets_is_a_name_if_there_is_such_a_file() -> None:
    Path("a[1].py").write_text("x")
    assert store("a[1].py") == ["a[1].py"]


def test_files_outside_of_the_working_folder_do_not_mix_with_those_inside(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "agent.py"
    outside.write_text("theirs")
    Path("agent.py").write_text("mine")
    inside, other = store("agent.py", str(outside))
    assert inside == "agent.py"
    assert other == f"outside{outside}"
    assert Path("run/snapshots", other).read_text() == "theirs"


def test_what_is_missing_is_warned_of_and_the_rest_is_stored(caplog: pytest.LogCaptureFixture) -> None:
    Path("agent.py").write_text("x")
    Path("models").mkdir()
    assert store("agnet.py", "*.cu", "models", "agent.py") == ["agent.py"]
    here = Path.cwd()
    assert f"TrainerConfig.code_snapshots: no file 'agnet.py' in {here}" in caplog.text
    assert f"no file '*.cu' in {here}" in caplog.text
    assert "'models' is a folder; name its files, for example 'models/**/*.py'" in caplog.text


@pytest.mark.parametrize("content", [b"\x89PNG\xff", b"a\0b"])
def test_what_is_no_text_is_copied_and_not_shown(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    Path("agent.py").write_bytes(content)
    store("agent.py")
    assert Path("run/snapshots/agent.py").read_bytes() == content
    assert "agent.py is stored and not shown in TensorBoard: it is not text" in caplog.text
    assert not Path("run/train").exists()


def test_long_text_is_copied_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    Path("agent.py").write_text("x" * 600_000)
    assert store("agent.py") == ["agent.py"]
    assert "not shown in TensorBoard: 0.6 MB" in caplog.text


def test_what_is_huge_is_not_copied(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(code_snapshot, "_MOST_BYTES", 1_000_000)
    Path("data.bin").write_bytes(b"\0" * 2_000_000)
    assert store("data.bin") == []
    assert "data.bin is not stored: 2 MB, and 1 MB are the most" in caplog.text


def test_too_many_files_are_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(code_snapshot, "_MOST_FILES", 2)
    for name in "abc":
        Path(f"{name}.py").write_text(name)
    assert store("*.py") == ["a.py", "b.py"]
    assert "3 files match, and only the first 2 are stored" in caplog.text


def test_a_file_that_was_changed_before_the_run_went_on_keeps_its_old_version() -> None:
    Path("agent.py").write_text("first")
    Path("same.py").write_text("same")
    store("*.py")
    Path("agent.py").write_text("second")
    store("*.py", iteration=100)
    found = {path.name: path.read_text() for path in Path("run/snapshots").iterdir()}
    assert found == {"agent.py": "second", "agent.py.until-000100": "first", "same.py": "same"}


def test_backticks_in_a_file_do_not_end_its_code() -> None:
    Path("agent.py").write_text("````\n")
    store("agent.py")
    assert shown() == "`````py\n````\n`````"


def test_a_disk_that_is_full_is_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    Path("agent.py").write_text("x")
    monkeypatch.setattr(code_snapshot, "_write", full)
    assert store("agent.py") == []
    assert "agent.py is not stored: No space left on device" in caplog.text

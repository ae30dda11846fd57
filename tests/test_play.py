from __future__ import annotations

import builtins
import os
import shutil
import subprocess
import sys
from pathlib import Path

import av
import pytest
from PIL import Image

from alfish import evaluate, play
from alfish.config.command import run
from alfish.training.run_folder import RunFolder
from tests.trained_run import CARTPOLE, train_run

REPOSITORY = Path(__file__).parent.parent
SIZE = (840, 400)  # CartPole's picture and the panel


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tmp_path_factory.mktemp("trained"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of a run, on a machine without display."""
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def command(*arguments: str) -> int:
    return run(play.main, arguments)


def frames(file: str) -> list[Image.Image]:
    with av.open(file) as film:
        return [frame.to_image() for frame in film.decode(video=0)]


def returns(out: str) -> list[float]:
    return [float(line.split()[3].rstrip(",")) for line in out.splitlines() if line.startswith("episode ")]


def test_a_film_has_a_frame_for_every_time_step(capsys):
    assert command("--root_dir=copy", "--record_file=play.mp4", "--num_episodes=2", "--fps=50") == 0
    out = capsys.readouterr().out
    lengths = [int(line.rpartition(" ")[2]) for line in out.splitlines() if line.startswith("episode ")]
    assert len(lengths) == 2
    film = frames("play.mp4")
    assert len(film) == sum(lengths) + 2  # the first one of each episode shows where it begins
    assert {image.size for image in film} == {SIZE}
    assert f"{len(film)} frames in play.mp4" in out
    with av.open("play.mp4") as opened:
        assert opened.streams.video[0].average_rate == 50


def test_a_gif_shows_the_same(capsys):
    assert command("copy", "--record_file=play.gif", "--num_episodes=1", "--nooverlay") == 0
    with Image.open("play.gif") as film:
        assert film.size == (600, 400)
        assert film.is_animated


def test_it_is_a_command_of_its_own_and_needs_only_the_folder(capsys):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-m", "alfish.play", "--root_dir=copy", "--record_file=play.mp4", "--num_episodes=1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("episode 1: return ")
    assert len(frames("play.mp4")) > 1


def test_without_pictures_there_are_only_returns(capsys):
    assert command("copy", "--norender", "--num_episodes=3", "--seed=5") == 0
    *episodes, summary = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in episodes] == ["episode 1", "episode 2", "episode 3"]
    assert summary.startswith("mean return ")
    assert "over 3 episodes" in summary


def test_the_episodes_are_the_same_with_and_without_pictures(capsys):
    assert command("copy", "--norender", "--num_episodes=2", "--epsilon_greedy=0.5") == 0
    unseen = returns(capsys.readouterr().out)
    assert command("copy", "--record_file=a.gif", "--num_episodes=2", "--epsilon_greedy=0.5") == 0
    assert returns(capsys.readouterr().out) == unseen


def test_parallel_play_ends_with_a_summary(capsys):
    assert command("copy", "--num_parallel_environments=4") == 0
    *episodes, summary = capsys.readouterr().out.splitlines()
    assert len(episodes) == 4
    played = [float(line.split()[3].rstrip(",")) for line in episodes]
    assert f"(min {min(played):.2f}, max {max(played):.2f}) over 4 episodes" in summary
    assert run(evaluate.main, ["copy", "--num_episodes=4", "--num_environments=4"]) == 0
    assert capsys.readouterr().out.split("+-")[0] == summary.split("+-")[0]


def test_the_checkpoint_may_be_chosen(capsys):
    assert command("copy", "--norender", "--checkpoint=2") == 0
    assert capsys.readouterr().out.endswith("checkpoint 2\n")
    assert command("copy", "--norender", "--checkpoint=3") == 6
    assert "no checkpoint '3'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--root_dir is missing"),
        (["copy"], 2, "there is no display to open a window on. Record a film with --record_file=play.mp4"),
        (["copy", "other"], 2, "one run folder at a time"),
        (["nowhere", "--record_file=a.mp4"], 6, "nowhere does not exist"),
        ([".", "--norender"], 6, "is not a run folder"),
        (["copy", "--record_file=a.avi"], 2, "a.avi: no such kind of film. Use a name that ends in .mp4 or .gif"),
        (["copy", "--record_file=a.mp3"], 2, "Did you mean a.mp4?"),
        (["copy", "--record_file=nowhere/a.mp4"], 5, "the folder nowhere does not exist"),
        (["copy", "--record_file=a.mp4", "--norender"], 2, "there is nothing to record"),
        (["copy", "--record_file=a.mp4", "--num_parallel_environments=2"], 2, "pictures are made of one environment"),
        (["copy", "--epsilon_greedy=2"], 2, "epsilon_greedy"),
        (["copy", "--num_episode=2"], 2, "Did you mean --num_episodes?"),
        (["copy", "--fps=0"], 2, "fps"),
    ],
)
def test_what_is_wrong_is_told_and_no_film_is_left(capsys, arguments, code, message):
    assert command(*arguments) == code
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert sorted(path.name for path in Path().iterdir()) == ["copy"]


def test_damage_is_told(capsys):
    (Path("copy") / "checkpoints/000004/model.pt").write_bytes(b"x")
    assert command("copy", "--norender", "--checkpoint=4") == 6
    assert "is damaged" in capsys.readouterr().err
    shutil.rmtree("copy/checkpoints")
    assert command("copy", "--record_file=a.mp4") == 6
    assert "holds no checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize(("file", "package", "project"), [("a.mp4", "av", "av"), ("a.gif", "PIL", "pillow")])
def test_a_missing_package_is_told_with_the_extra_that_brings_it(monkeypatch, capsys, file, package, project):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    real_import = builtins.__import__

    def import_all_but_one(name, *arguments, **options):
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return real_import(name, *arguments, **options)

    monkeypatch.setattr("builtins.__import__", import_all_but_one)
    monkeypatch.setattr("importlib.import_module", lambda name: import_all_but_one(name) or sys.modules[name])
    assert command("copy", f"--record_file={file}") == 2
    err = capsys.readouterr().err
    assert f"{project} is needed" in err
    assert "pip install 'alfish[video]'" in err


def test_an_environment_without_pictures_is_told(tmp_path, capsys):
    text = CARTPOLE.replace("CartPole-v1", "alfish/PolicyUnittest-v0")
    train_run(tmp_path, text, "plain")
    assert command("plain", "--record_file=a.mp4") == 2
    err = capsys.readouterr().err
    assert "alfish/PolicyUnittest-v0 makes no pictures" in err
    assert "--norender" in err
    assert not Path("a.mp4").exists()
    assert command("plain", "--norender", "--num_episodes=1") == 0


@pytest.mark.parametrize("arguments", [[], ["--norender"], ["--record_file=a.mp4"]])
def test_a_run_over_data_cannot_be_played(arguments, tmp_path, capsys):
    RunFolder(tmp_path).write_run(ml_type="sl")
    assert command(str(tmp_path), *arguments) == 2
    err = capsys.readouterr().err
    assert "there is nothing to play" in err
    assert f"python -m alfish.evaluate --root_dir={tmp_path}" in err

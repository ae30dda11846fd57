"""A wheel, installed where there is no checkout, is all that a user needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "alfish", "configs")
CONFIGS = sorted(path.relative_to(ROOT / "configs").as_posix() for path in (ROOT / "configs").rglob("*.gin"))


def run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, which is gone afterwards, so that nothing can lean on it."""
    folder = tmp_path_factory.mktemp("build")
    copy = folder / "source"
    copy.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, "-w", folder, copy, cwd=folder)
    shutil.rmtree(copy)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that has the wheel, and borrows the dependencies of this one."""
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel),
        cwd=home,
    )
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    # Only the folder goes on the path: the .pth files in it, an editable alfish among them, are not read.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_the_wheel_holds_every_config_and_the_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"alfish/configs/{name}" for name in CONFIGS} <= names
    assert "alfish/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"alfish"}


def test_the_wheel_holds_every_module(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "alfish").rglob("*.py")}
    assert modules <= names


def test_metadata_declares_command_licence_and_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = next(name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name)
    metadata = archive.read(f"{info}/METADATA").decode()
    extras = {line.split()[1] for line in metadata.splitlines() if line.startswith("Provides-Extra:")}
    assert {"atari", "mujoco", "box2d", "envpool", "video", "wandb", "dev"} <= extras
    assert "License-Expression: Apache-2.0" in metadata
    assert "alfish = alfish.cli:main" in archive.read(f"{info}/entry_points.txt").decode()


def test_it_runs_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import alfish; print(alfish.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(installed.parent)

    listed = run(installed / "alfish", "list", cwd=tmp_path)
    assert all(f"  {name}" in listed for name in CONFIGS if not name.startswith("base/"))
    assert run(installed / "alfish", "describe", "PPOAlgorithm", cwd=tmp_path).startswith(
        "PPOAlgorithm  (class, alfish/"
    )

    small = ("TrainerConfig.num_env_steps=3000", "TrainerConfig.num_eval_episodes=20")
    run(installed / "alfish", "train", "ppo.gin", "--root_dir=first", *small, cwd=tmp_path)
    out = run(installed / "python", "-m", "alfish.evaluate", "--root_dir=first", "--num_episodes=4", cwd=tmp_path)
    assert "over 4 episodes" in out
    assert {path.name for path in tmp_path.iterdir()} == {"first"}

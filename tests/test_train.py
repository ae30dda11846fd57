from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from alfish import train
from alfish.config.command import run
from alfish.training.checkpoint import CheckpointFolder
from alfish.training.run_folder import RunFolder

TINY = """# Small enough for a test.
create_environment.env_name = "alfish/PolicyUnittest-v0"
create_environment.num_parallel_environments = 4
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_iterations = 4
TrainerConfig.num_checkpoints = 2
PPOAlgorithm.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
INTERRUPTED = f"import tests.interrupt\n{TINY}TrainerConfig.hooks = [@Interrupt()]\nInterrupt.kind = 'SIGTERM'\n"
REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one config."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    (tmp_path / "tiny.gin").write_text(TINY)
    return tmp_path


def command(*arguments: str) -> int:
    return run(train.main, arguments)


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, "-m", "alfish.train", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def newest(root_dir: str = "run") -> int:
    return CheckpointFolder(Path(root_dir) / "checkpoints").newest().iteration


def test_a_run_ends_with_its_result_and_what_to_do_next(capsys):
    assert command("--gin_file=tiny.gin", "--root_dir=my run") == 0
    out, err = capsys.readouterr()
    assert "100%" in err
    assert "mean return of the last training episodes" in out
    assert "run folder: my run" in out
    assert "python -m alfish.play --root_dir='my run'" in out
    assert "python -m alfish.evaluate --root_dir='my run' --num_episodes=100" in out
    assert "python -m alfish.train --root_dir='my run' TrainerConfig.num_iterations=8" in out
    assert "tensorboard --logdir='my run'" in out
    assert {path.name for path in Path("my run").iterdir()} == {
        ".lock", "README.md", "checkpoints", "config.gin", "operative.gin", "operative-000000.gin", "progress.csv",
        "run.json", "train",
    }  # fmt: skip


def test_the_command_to_go_on_does(capsys):
    assert command("tiny.gin", "--root_dir=run", "TrainerConfig.random_seed=None") == 0
    seed = RunFolder("run").read_seed()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "go on:" in line]
    Path("tiny.gin").unlink()
    assert command(*line.split("alfish.train")[1].split()) == 0
    assert "going on from iteration 4" in capsys.readouterr().err
    assert newest() == 8
    assert RunFolder("run").read_seed() == seed
    assert "TrainerConfig.num_iterations = 8" in Path("run/config.gin").read_text()


@pytest.mark.parametrize(
    ("bindings", "more"),
    [
        (["num_iterations=0", "num_env_steps=50"], "TrainerConfig.num_env_steps=100"),
        (["num_iterations=3", "num_env_steps=50"], "TrainerConfig.num_iterations=6 TrainerConfig.num_env_steps=100"),
        (
            ["num_iterations=1000", "num_epochs=2", "num_steps_per_epoch=5"],
            "TrainerConfig.num_epochs=4",
        ),
    ],
)
def test_going_on_doubles_the_budget_that_the_run_has(capsys, bindings, more):
    assert command("tiny.gin", "--root_dir=run", *(f"TrainerConfig.{binding}" for binding in bindings)) == 0
    assert f"go on:     python -m alfish.train --root_dir=run {more}\n" in capsys.readouterr().out


def test_without_a_root_dir_the_folder_is_named_after_config_and_time():
    assert command("tiny.gin") == 0
    assert command("tiny.gin") == 0  # in the same second, or not
    runs = list(Path("runs/tiny").iterdir())
    assert len(runs) == 2
    assert all(re.match(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", path.name) for path in runs)


def test_the_root_dir_may_be_bound_and_the_command_line_wins():
    assert command("tiny.gin", "TrainerConfig.root_dir='bound'") == 0
    assert newest("bound") == 4
    assert command("tiny.gin", "TrainerConfig.root_dir='bound'", "--root_dir=given") == 0
    assert newest("given") == 4


def test_nothing_is_printed_when_nothing_shall_be(capfd):
    Path("tiny.gin").write_text(TINY + "TrainerConfig.verbose = False\nTrainerConfig.show_progress = False\n")
    assert command("tiny.gin", "--root_dir=run") == 0
    assert capfd.readouterr() == ("", "")


# What can be wrong


def test_without_a_config_the_line_to_type_is_shown(capsys):
    assert command() == 2
    assert "no config given. Try\n    python -m alfish.train --gin_file=ppo.gin\n" in capsys.readouterr().err
    assert command("--root_dir=nowhere") == 2
    assert "no config given, and nowhere does not exist: there is no run to go on with. Try" in capsys.readouterr().err
    Path("empty").mkdir()
    assert command("--root_dir=empty") == 2
    assert "no config given, and empty has no config.gin: there is no run" in capsys.readouterr().err


def test_conflicts_are_told_before_anything_is_made(capsys):
    assert command("tiny.gin", "--root_dir=run", "TrainerConfig.random_initial_collect=True") == 2
    assert "TrainerConfig.random_initial_collect (command line" in capsys.readouterr().err
    assert not Path("run").exists()


def test_options_without_effect_are_told_with_file_and_line(capsys):
    Path("tiny.gin").write_text(
        TINY.replace("@PPOAlgorithm", "@ActorCriticAlgorithm").replace("PPOAlgorithm.opt", "ActorCriticAlgorithm.opt")
        + "TrainerConfig.mini_batch_size = 64\n"
    )
    assert command("tiny.gin", "--root_dir=run") == 2
    err = capsys.readouterr().err
    assert "error: tiny.gin:11: TrainerConfig.mini_batch_size: has no effect on ActorCriticAlgorithm" in err


def test_what_nothing_uses_is_told_and_refused_when_strict(capsys):
    assert command("tiny.gin", "--root_dir=run", "SGD.lr=0.5") == 0
    assert "SGD.lr was never used" in capsys.readouterr().err
    assert command("tiny.gin", "--root_dir=strict", "--strict", "SGD.lr=0.5") == 2
    assert "error: " in capsys.readouterr().err


def test_a_bad_config_is_told_quickly_and_without_torch():
    Path("bad.gin").write_text(TINY + "TrainerConfig.num_iteration = 3\n")
    code = (
        "import sys; from alfish.config.command import run; from alfish.train import main;"
        "code = run(main, ['--gin_file=bad.gin']); assert 'torch' not in sys.modules; sys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "bad.gin:11: TrainerConfig.num_iteration: no such" in done.stderr
    assert "num_iterations" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_in_use_is_told_with_its_user(capsys):
    holder = RunFolder("run")
    holder.open()
    assert command("tiny.gin", "--root_dir=run") == 5
    assert f"run is in use by process {os.getpid()} on " in capsys.readouterr().err
    holder.close()


def test_a_folder_that_cannot_be_written_is_told(capsys):
    Path("file").write_text("")
    assert command("tiny.gin", "--root_dir=file") == 5
    assert "cannot write to the run folder file" in capsys.readouterr().err
    assert command("tiny.gin", "--root_dir=/proc/alfish") == 5
    Path("runs").write_text("")
    assert command("tiny.gin") == 5


def test_another_architecture_is_told(capsys):
    assert command("tiny.gin", "--root_dir=run") == 0
    assert command("tiny.gin", "--root_dir=run", "ValueNetwork.fc_layer_params=(8,)") == 6
    err = capsys.readouterr().err
    assert "holds another architecture" in err
    assert "value_network" in err
    assert "(4, 1) in the checkpoint, (8, 1) in the configuration" in err
    assert "fc_layer_params = (4,)" in Path("run/config.gin").read_text()


def test_damaged_checkpoints_are_told(capsys):
    assert command("tiny.gin", "--root_dir=run") == 0
    more = ("tiny.gin", "--root_dir=run", "TrainerConfig.num_iterations=8")
    os.truncate("run/checkpoints/000004/model.pt", 10)
    assert command(*more) == 0
    err = capsys.readouterr().err
    assert re.search(r"warning: .*000004/model.pt is damaged: it has 10 of", err)
    assert "going on from iteration 2" in err
    for path in Path("run/checkpoints").glob("*/model.pt"):
        os.truncate(path, 10)
    assert command(*more) == 6
    assert "no checkpoint is whole" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_is_told(capsys):
    Path("huge.gin").write_text(
        TINY.replace("PolicyUnittest", "ConstantRewardProbe") + "ConstantRewardProbe.reward = 1e30\n"
    )
    assert command("huge.gin", "--root_dir=run") == 4
    err = capsys.readouterr().err
    assert "value_loss is not finite" in err
    assert "run/nan_dump.pt" in err
    assert torch.load("run/nan_dump.pt", weights_only=True)["time_step.reward"].max() == 1e30


# Signals


@pytest.mark.parametrize(("kind", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_saves_and_leaves_with_its_code(kind, code, capsys):
    Path("tiny.gin").write_text(INTERRUPTED)
    assert command("tiny.gin", "--root_dir=run", f"Interrupt.kind='{kind}'") == code
    assert newest() == 3
    out, err = capsys.readouterr()
    assert f"{kind}: saving at iteration 3 and leaving" in err
    assert out.endswith("python -m alfish.train --root_dir=run\n")


def test_a_process_leaves_with_the_code_of_its_signal_and_at_once_with_the_second():
    Path("tiny.gin").write_text(INTERRUPTED)
    done = process("--gin_file=tiny.gin", "--root_dir=run")
    assert done.returncode == 143, done.stderr
    assert newest() == 3
    done = process("--gin_file=tiny.gin", "--root_dir=other", "Interrupt.times=2")
    assert done.returncode == -signal.SIGTERM
    assert not Path("other/checkpoints/000003").exists()


def test_a_signal_from_outside_is_heeded():
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    arguments = ["--gin_file=tiny.gin", "--root_dir=run", "TrainerConfig.num_iterations=1000000"]
    child = subprocess.Popen(
        [sys.executable, "-m", "alfish.train", *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not Path("run/progress.csv").exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    facts = json.loads(Path("run/run.json").read_text())
    assert facts["state"] == "SIGINT"
    assert newest() > 0


def test_a_run_may_begin_with_the_parameters_of_another(capsys):
    assert command("tiny.gin", "--root_dir=run") == 0
    wider = ("tiny.gin", "--root_dir=new", "ValueNetwork.fc_layer_params=(8,)")
    capsys.readouterr()
    assert command(*wider, "--init_from=run@2") == 0
    err = capsys.readouterr().err
    assert "5 of 8 tensors are those of run, iteration 2; not taken over:\n    value_network" in err
    assert json.loads(Path("new/run.json").read_text())["init_from"]["checkpoint"] == 2
    assert command(*wider, "--init_from=run@2", "TrainerConfig.num_iterations=6") == 0  # the same command goes on
    assert "--init_from=run@2: no effect, the run has begun already" in capsys.readouterr().err
    assert command("tiny.gin", "--root_dir=other", "--init_from=run:value_network._encoding", *wider[2:]) == 6
    assert "nothing of run/checkpoints/000004 fits" in capsys.readouterr().err


def test_another_learning_rate_is_told_and_taken(capsys):
    assert command("tiny.gin", "--root_dir=run") == 0
    capsys.readouterr()
    assert command("--root_dir=run", "Adam.lr=0.5", "TrainerConfig.num_iterations=6") == 0
    err = capsys.readouterr().err
    assert "options that were changed:\n    Adam.lr: 0.01 -> 0.5 (command line)\n    TrainerConfig.num_iter" in err
    assert newest() == 6

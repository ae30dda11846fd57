"""Runs of several processes, as a user starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

REPOSITORY = Path(__file__).parents[2]
CONFIG = """
import tests.training.probed_ppo
create_environment.env_name = "alfish/PolicyUnittest-v0"
create_environment.num_parallel_environments = 4
TrainerConfig.algorithm_ctor = @ProbedPPO
TrainerConfig.random_seed = 1
TrainerConfig.num_iterations = 6
TrainerConfig.unroll_length = 5
TrainerConfig.num_updates_per_train_iter = 3
TrainerConfig.num_checkpoints = 0
TrainerConfig.show_progress = False
ProbedPPO.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
_SECONDS = 120  # a busy machine takes long to import torch
_GRACE = 5


@dataclass(frozen=True)
class Ended:
    """Processes that have ended."""

    codes: tuple[int, ...]
    errors: tuple[str, ...]  # what each wrote to stderr


def torchrun(*arguments: str) -> Ended:
    """Two ranks below an agent, whose exit code it is."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "alfish.train"]
    return _wait(_start(launcher, arguments, {}))


def two_ranks(*arguments: str, **environ: str) -> Ended:
    """Two ranks without an agent that ends one when the other fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **environ}
    ranks = [_start(["-m", "alfish.train"], arguments, {**shared, "RANK": str(rank)}) for rank in range(2)]
    return _wait(*ranks)


def notes() -> list[dict[str, Any]]:
    """What `ProbedPPO` wrote on rank 0 and 1."""
    return [torch.load(f"rank-{rank}.pt", weights_only=False) for rank in range(2)]


def _start(command: list[str], arguments: tuple[str, ...], environ: dict[str, str]) -> subprocess.Popen[str]:
    Path("config.gin").write_text(CONFIG)
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    return subprocess.Popen(
        [sys.executable, *command, "--gin_file=config.gin", "--root_dir=run", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", **loopback, **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait(*processes: subprocess.Popen[str]) -> Ended:
    """For the first of them; who has not ended soon after it hangs."""
    errors = []
    try:
        for process in processes:
            try:
                errors.append(process.communicate(timeout=_SECONDS if process is processes[0] else _GRACE)[1])
            except subprocess.TimeoutExpired:
                process.kill()
                errors.append(process.communicate()[1])
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return Ended(tuple(process.returncode for process in processes), tuple(errors))

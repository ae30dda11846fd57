"""A PPO that leaves notes of what each rank is, and goes wrong on one of them when it is told to."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import torch

from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.training import distributed
from alfish.types import Experience, Nest

if "TEST_PATIENCE" in os.environ:
    distributed._PATIENCE = float(os.environ["TEST_PATIENCE"])


@configurable
class ProbedPPO(PPOAlgorithm):
    """Writes `rank-<rank>.pt` after every iteration.

    Args:
        observation_spec: as PPO has it, and so on.
        action_spec: as PPO has it.
        reward_spec: as PPO has it.
        env: as PPO has it.
        config: as PPO has it.
        optimizer: as PPO has it.
        debug_summaries: as PPO has it.
        fault: what happens to rank 1: '', 'drift', 'kill', 'hang' or 'signal'.
        fault_iteration: in which it does.
    """

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
        fault: str = "",
        fault_iteration: int = 2,
    ) -> None:
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            env=env,
            config=config,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self._fault = fault
        self._fault_iteration = fault_iteration

    def after_train_iter(self, experience: Experience) -> None:
        rank = os.environ.get("RANK", "0")
        iteration = self.progress.iterations + 1
        if rank == "1" and iteration == self._fault_iteration:
            self._go_wrong()
        notes = {
            "model": self.state_dict(),
            "iteration": iteration,
            "env_steps": self.progress.env_steps,
            "updates": self.progress.updates,
            "own_steps": self.metrics.env_steps,
            "observation": experience.time_step.observation,
            "action": experience.action,
            "skipped": self.loop.updater.skipped,
        }
        torch.save(notes, f"rank-{rank}.aside")
        Path(f"rank-{rank}.aside").rename(f"rank-{rank}.pt")

    def _go_wrong(self) -> None:
        if self._fault == "drift":
            with torch.no_grad():
                next(self.value_network.parameters()).view(-1)[0] += 1e-6
        elif self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._fault == "hang":
            time.sleep(600)
        elif self._fault == "signal":
            os.kill(os.getpid(), signal.SIGTERM)

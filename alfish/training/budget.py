"""How long a run lasts, and what is due when."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress


@dataclass(frozen=True)
class Budget:
    """The end of a run.

    With epochs, `num_iterations` is their number times the iterations of one. With both limits, interaction ends at
    `num_env_steps`, and off-policy training goes on from replay.
    """

    num_iterations: int  # 0: no limit
    num_env_steps: int  # 0: no limit
    iterations_per_epoch: int  # 0: the whole run is one epoch
    unroll_length: float  # inf: as long as the episodes are
    num_environments: int
    on_policy: bool
    offline_updates: int = 0  # of an iteration of a run in which nobody acts

    @classmethod
    def of(cls, config: TrainerConfig, num_environments: int, on_policy: bool) -> Budget:
        iterations, env_steps, per_epoch = config.num_iterations, config.num_env_steps, 0
        if config.num_epochs is not None:
            assert config.num_steps_per_epoch is not None
            steps_per_iteration = config.unroll_length * num_environments
            per_epoch = ceil(config.num_steps_per_epoch / steps_per_iteration - 1e-9)
            iterations, env_steps = config.num_epochs * per_epoch, 0
        unroll_length = config.unroll_length or config.max_unroll_length  # 0: as much as is there, up to
        if config.unroll_episodes is not None:
            unroll_length = inf
        return cls(iterations, env_steps, per_epoch, unroll_length, num_environments, on_policy)

    @classmethod
    def offline(cls, config: TrainerConfig, updates_per_iter: int) -> Budget:
        """Of a run in which nobody acts: the steps of an epoch are updates."""
        if config.num_epochs is None:
            return cls(config.num_iterations, 0, 0, 0, 1, False, updates_per_iter)
        assert config.num_steps_per_epoch is not None
        per_epoch = ceil(config.num_steps_per_epoch / updates_per_iter)
        return cls(config.num_epochs * per_epoch, 0, per_epoch, 0, 1, False, updates_per_iter)

    @classmethod
    def of_epochs(cls, number: int) -> Budget:
        """Of a run over data, whose iterations are epochs."""
        return cls(number, 0, 1, 0, 0, False)

    def fraction(self, progress: Progress) -> float:
        """How much of the budget is used, 0 to 1."""
        return self._fraction(progress.iterations, progress.env_steps)

    def next_fraction(self, progress: Progress) -> float:
        """The largest fraction that the next iteration can reach."""
        length = inf if self.unroll_length == inf else ceil(self.unroll_length)
        return self._fraction(progress.iterations + 1, progress.env_steps + length * self.num_environments)

    def is_used_up(self, progress: Progress) -> bool:
        return self.fraction(progress) >= 1.0

    def may_interact(self, progress: Progress) -> bool:
        return not self.num_env_steps or progress.env_steps < self.num_env_steps

    def epoch_is_over(self, progress: Progress) -> bool:
        return bool(self.iterations_per_epoch) and progress.iterations % self.iterations_per_epoch == 0

    def epoch(self, progress: Progress) -> int:
        """The number, from 1, of the epoch that the newest iteration belongs to."""
        return ceil(progress.iterations / self.iterations_per_epoch) if self.iterations_per_epoch else 1

    def _fraction(self, iterations: int, env_steps: float) -> float:
        by_iterations = iterations / self.num_iterations if self.num_iterations else None
        by_steps = env_steps / self.num_env_steps if self.num_env_steps else None
        if by_iterations is None:
            return 1.0 if by_steps is None else min(1.0, by_steps)
        # Without interaction an on-policy algorithm has nothing to learn from.
        return min(1.0, max(by_iterations, by_steps) if by_steps and self.on_policy else by_iterations)

    def __str__(self) -> str:
        limits = [f"{self.num_iterations:,} iterations"] if self.num_iterations else []
        limits += [f"{self.num_env_steps:,} environment steps"] if self.num_env_steps else []
        if not self.num_environments:
            return f"{self.num_iterations:,} epochs"
        if self.iterations_per_epoch:
            steps = f"{self.unroll_length * self.num_environments:g} environment steps"
            limits = [
                f"{self.num_iterations // self.iterations_per_epoch} epochs of {self.iterations_per_epoch} iterations "
                f"with {f'{self.offline_updates} updates' if self.offline_updates else steps} each"
            ]
        return " or ".join(limits) or "nothing"


class Milestones:
    """Exactly `count` moments, evenly spaced over the budget, the last one at its end."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._reached = 0

    def will_pass(self, fraction: float) -> bool:
        """Whether a milestone lies between the last one passed and `fraction`."""
        return int(fraction * self.count + 1e-9) > self._reached

    def passed(self, fraction: float) -> bool:
        """Whether a milestone was passed since the last call; several passed at once count as one."""
        passed = self.will_pass(fraction)
        self._reached = max(self._reached, int(fraction * self.count + 1e-9))
        return passed

"""Hindsight experience replay: learning from what was reached, as if it had been the goal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated

import torch

from alfish import nest
from alfish.algorithms.transformers.base import DataTransformer, StoredExperience, Tier
from alfish.algorithms.transformers.fields import Fields
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.types import BatchInfo, Experience, Nest, StepType, TimeStep, replace

logger = logging.getLogger(__name__)


@configurable
class SparseGoalReward:
    """0 within a distance of the goal, else -1, as in Gymnasium's goal environments.

    Args:
        threshold: the largest Euclidean distance that counts as reached.
    """

    def __init__(self, threshold: Annotated[float, Range(min=0)] = 0.05) -> None:
        self._threshold = threshold

    def __call__(self, achieved: torch.Tensor, desired: torch.Tensor) -> torch.Tensor:
        distance = torch.linalg.vector_norm((achieved - desired).float(), dim=-1)
        return (distance <= self._threshold).float() - 1.0


@configurable
class HindsightExperienceTransformer(DataTransformer):
    """Replaces the goal of some replayed transitions by one that was achieved later in the same episode.

    The 'future' strategy of Andrychowicz et al. 2017: the new goal is drawn uniformly from what was achieved after
    the transition, its own outcome included, up to the end of the episode or the newest stored step. The reward is
    computed anew; discounts stay, as goal environments go on after a success. Only for sequences of two time steps,
    one transition: over several steps the actions would have been chosen for another goal.

    Args:
        observation_spec: of what comes in.
        her_proportion: the chance of a transition being relabelled; 0.8 is the paper's 4 of 5.
        achieved_goal_field: path in the observation of what has been reached.
        desired_goal_field: path in the observation of the goal.
        reward_fn: from achieved and desired goals `[..., G]` to rewards `[...]`, the environment's own rule; None:
            @SparseGoalReward().
    """

    tier = Tier.READS_REPLAY

    def __init__(
        self,
        observation_spec: Nest,
        her_proportion: Annotated[float, Range(min=0, max=1)] = 0.8,
        achieved_goal_field: str = "achieved_goal",
        desired_goal_field: str = "desired_goal",
        reward_fn: Callable[..., torch.Tensor] | None = None,
    ) -> None:
        super().__init__(observation_spec)
        self._achieved = _goal(observation_spec, "achieved_goal_field", achieved_goal_field)
        self._desired = _goal(observation_spec, "desired_goal_field", desired_goal_field)
        if self._achieved.specs[0].shape != self._desired.specs[0].shape:
            raise ConfigError(
                f"HindsightExperienceTransformer: {achieved_goal_field} has shape {self._achieved.specs[0].shape} and "
                f"{desired_goal_field} {self._desired.specs[0].shape}; what was achieved cannot become the goal"
            )
        self._her_proportion = her_proportion
        self._reward_fn = reward_fn or SparseGoalReward()
        self._compared = False

    @property
    def paths(self) -> list[str]:
        """Of the goals in the observation."""
        return [*self._achieved.paths, *self._desired.paths]

    def check_use(self, on_policy: bool, sequence_length: int) -> None:
        if on_policy:
            raise ConfigError(
                "HindsightExperienceTransformer relabels replayed transitions, and an on-policy algorithm has none. "
                "Use an off-policy algorithm such as DdpgAlgorithm or SacAlgorithm, or remove it from "
                "TrainerConfig.data_transformer_ctor"
            )
        if sequence_length != 2:
            raise ConfigError(
                "HindsightExperienceTransformer relabels single transitions, but sequences of "
                f"{sequence_length} time steps are drawn. Use TrainerConfig.mini_batch_length = 2 and one-step targets"
            )

    def transform_experience(self, experience: Experience, replay: StoredExperience) -> Experience:
        self.check_use(False, experience.length + 1)
        time_step = experience.time_step
        (achieved,), (desired,) = (goals.select(time_step.observation) for goals in (self._achieved, self._desired))
        if not self._compared:
            self._compare(self._reward_fn(achieved[1], desired[1]), time_step)

        relabel, reached = self._choose(experience.batch_info, replay)
        goal = nest.where(relabel.expand(2, -1), reached.to(desired.dtype).expand_as(desired), desired)
        earned = self._reward_fn(achieved[1], goal[1]).to(time_step.reward.dtype)
        reward = torch.stack((time_step.reward[0], nest.where(relabel, earned, time_step.reward[1])))
        observation = self._desired.put(time_step.observation, [goal])
        return replace(experience, time_step=replace(time_step, observation=observation, reward=reward))

    def _choose(self, info: BatchInfo, replay: StoredExperience) -> tuple[torch.Tensor, torch.Tensor]:
        """Which of the `B` transitions are relabelled, and what was achieved later, `[B, ...]`."""
        env_ids, start = torch.as_tensor(info.env_ids), torch.as_tensor(info.positions)
        ahead = replay.episode_end(env_ids, start) - start  # how many to choose from; none at LAST
        draws = torch.rand((2, len(start)), generator=self.generator, device=self.generator.device)
        chance, place = draws.to(start.device)
        relabel = (chance < self._her_proportion) & (ahead > 0)
        offset = 1 + (place * ahead).long().minimum(ahead - 1)  # rounding must not lead beyond the end
        later = torch.where(relabel, start + offset, start)
        (path,) = self._achieved.stored_paths()
        reached: torch.Tensor = replay.get_field(path, env_ids, later)
        return relabel.to(reached.device), reached

    def _compare(self, computed: torch.Tensor, time_step: TimeStep) -> None:
        """Says, once, when the reward function is not the environment's own."""
        given = time_step.reward[1]
        if computed.shape != given.shape:
            raise ConfigError(
                f"HindsightExperienceTransformer.reward_fn made rewards of shape {tuple(computed.shape)} for a batch "
                f"whose rewards have shape {tuple(given.shape)}"
            )
        taken = time_step.step_type[0] != StepType.LAST
        self._compared = bool(taken.any())
        if not torch.allclose(computed[taken].float(), given[taken], atol=1e-5):
            logger.warning(
                "HindsightExperienceTransformer.reward_fn differs from the environment's rewards: relabelled "
                "transitions follow another rule than the others. Set reward_fn to the environment's rule, e.g. "
                "SparseGoalReward.threshold."
            )


def _goal(observation_spec: Nest, option: str, path: str) -> Fields:
    fields = Fields(f"HindsightExperienceTransformer.{option}", observation_spec, [path])
    if len(fields.paths) != 1:
        raise ConfigError(f"HindsightExperienceTransformer.{option} = {path!r} holds {fields.paths}: name one of them")
    return fields

"""PPO solves environments whose optimum is known."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.ppo_loss import PPOLoss
from alfish.optimizers.adam import Adam
from tests.algorithms.runs import start_run


@pytest.mark.parametrize("reward_dim", [1, 3])
@pytest.mark.parametrize("action_type", ["discrete", "continuous"])
def test_policy_unittest_in_20_iterations(reward_dim: int, action_type: str) -> None:
    algorithm = start_run(
        PPOAlgorithm,
        env_name="alfish/PolicyUnittest-v0",
        env_kwargs={"reward_dim": reward_dim, "action_type": action_type, "episode_length": 13},
        num_environments=100,
        unroll_length=13,
        num_updates_per_train_iter=4,
        mini_batch_size=25,
        optimizer=Adam(lr=0.1 if action_type == "discrete" else 0.03),
    )
    for _ in range(20):
        algorithm.train_iter()
    with algorithm.evaluating(torch.Generator()):
        time_step = algorithm._env.reset(seed=1)
        for _ in range(13):
            time_step = algorithm._env.step(algorithm.predict_step(time_step, ()).output)
    reward = time_step.reward.mean(0)
    assert reward.flatten().tolist() == pytest.approx([1.0] * reward.numel(), abs=0.1)


def test_memory_solves_what_needs_memory() -> None:
    algorithm = start_run(
        PPOAlgorithm,
        env_name="alfish/RNNPolicyUnittest-v0",
        env_kwargs={"gap": 3},
        num_environments=64,
        unroll_length=12,
        num_updates_per_train_iter=4,
        mini_batch_size=32,
        use_rollout_state=True,
        recurrent=True,
        optimizer=Adam(lr=0.01),
    )
    for _ in range(60):
        algorithm.train_iter()
    experience = algorithm.unroll(24).time_step
    rewards = experience.reward[experience.is_last()]
    assert rewards.mean().item() > 0.9


def test_the_updates_end_when_the_policy_has_moved_far_enough() -> None:
    counts = {}
    for limit in (None, 1e-6):
        algorithm = start_run(
            PPOAlgorithm,
            unroll_length=8,
            mini_batch_length=1,
            mini_batch_size=8,
            num_updates_per_train_iter=4,
            loss_class=partial(PPOLoss, target_kl=limit),
        )
        algorithm.train_iter()
        counts[limit] = algorithm.progress.updates
    assert counts[None] == 16
    assert 1 <= counts[1e-6] < 16


class Forbidden(gym.Env[Any, Any]):
    """Four actions, of which two, other ones at every step, are forbidden; an error tells when one is taken."""

    observation_space = gym.spaces.Dict(
        {
            "observation": gym.spaces.Box(0.0, 1.0, (4,), np.float32),
            "action_mask": gym.spaces.Box(0, 1, (4,), np.int64),
        }
    )
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self._mask[action] == 1, "a forbidden action"
        self._time += 1
        best = int(np.flatnonzero(self._mask)[-1])
        return self._observe(), float(action == best), self._time == 10, False, {}

    def _observe(self) -> Any:
        self._mask = np.zeros(4, np.int64)
        self._mask[self.np_random.permutation(4)[:2]] = 1
        return {"observation": self._mask.astype(np.float32), "action_mask": self._mask}


def test_forbidden_actions_are_never_taken_and_the_rest_is_learned() -> None:
    gym.register("ForbiddenActions-v0", Forbidden)
    try:
        algorithm = start_run(
            PPOAlgorithm,
            env_name="ForbiddenActions-v0",
            num_environments=16,
            unroll_length=32,
            mini_batch_length=1,
            mini_batch_size=128,
            optimizer=Adam(lr=0.01),
            loss_class=partial(PPOLoss, gamma=0.0),
        )
    finally:
        gym.registry.pop("ForbiddenActions-v0")
    for _ in range(30):
        algorithm.train_iter()
    assert algorithm.metrics.average_return > 9.5


def test_debug_summaries_tell_more() -> None:
    tags = {}
    for debug in (False, True):
        algorithm = start_run(PPOAlgorithm, unroll_length=8, debug_summaries=debug)
        algorithm.summary.enabled = True
        algorithm.train_iter()
        tags[debug] = set(algorithm.summary._collected.histograms) | set(algorithm.summary.write())
    told = {"explained_variance", "advantage", "value", "action", "reward"}
    assert tags[True] - tags[False] == {f"Debug/{name}" for name in told}


def test_old_log_probabilities_are_those_of_the_acting_policy() -> None:
    algorithm = start_run(PPOAlgorithm, unroll_length=8)
    experience = algorithm.unroll(8)
    prepared = algorithm.preprocess_experience(experience).rollout_info
    distribution, _ = algorithm.actor_network(experience.time_step.observation[:-1])
    assert torch.allclose(prepared.old_log_prob, distribution.log_prob(experience.action), atol=1e-6)
    assert prepared.action_distribution == ()

"""Behavioural cloning makes recorded actions likely, and nothing else."""

from __future__ import annotations

from functools import partial
from math import log, pi
from typing import Any

import pytest
import torch

from alfish.algorithms.bc import BcAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems
from alfish.environments.create import create_environment
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.training.build import build_algorithm
from alfish.types import TimeStep, replace
from tests.algorithms.off_policy_runs import final_reward, sequence
from tests.algorithms.recorded import POLICY, random_tape, start_offline

SMALL = partial(ActorDistributionNetwork, fc_layer_params=(16,))


def expert(tape: Tape) -> Tape:
    """In these environments the best action is the observation."""
    shown = tape.observation[:, 0]
    return replace(tape, action=shown.long() if tape.action.dtype == torch.int64 else shown.unsqueeze(-1))


@pytest.mark.parametrize("action_type", ["discrete", "continuous"])
def test_it_does_what_an_expert_did(action_type: str) -> None:
    tape = expert(random_tape(num_steps=200, action_type=action_type))
    kwargs = {"action_type": action_type}
    algorithm = start_offline(BcAlgorithm, tape, env_kwargs=kwargs, actor_network_ctor=SMALL)
    for _ in range(150):
        algorithm.train_iter()
    assert final_reward(algorithm) > 0.95  # the expert's is 1
    assert algorithm.progress.env_steps == 0


def test_it_does_not_look_at_rewards() -> None:
    tape = random_tape()
    weights = []
    for each in (tape, replace(tape, reward=-tape.reward)):
        algorithm = start_offline(BcAlgorithm, each, actor_network_ctor=SMALL)
        algorithm.train_iter()
        weights.append(torch.nn.utils.parameters_to_vector(algorithm.parameters()))
    assert torch.equal(*weights)


def test_with_memory_it_remembers_what_an_expert_remembered() -> None:
    env_name = "alfish/RNNPolicyUnittest-v0"
    tape = random_tape(env_name, num_steps=400)
    shown = torch.zeros(len(tape))
    for t, step_type in enumerate(tape.step_type.tolist()):
        shown[t] = tape.observation[t, 0] if step_type == 0 else shown[t - 1]
    tape = replace(tape, action=(shown > 0).long())
    network = partial(ActorDistributionRnnNetwork, lstm_hidden_size=16)
    options = {"mini_batch_length": 6}
    algorithm = start_offline(BcAlgorithm, tape, env_name, actor_network_ctor=network, options=options)
    for _ in range(150):
        algorithm.train_iter()
    assert final_reward(algorithm) > 0.38  # of 5 steps 2 are rewarded; without a memory 0.2


def test_the_loss_is_the_negative_log_likelihood() -> None:
    algorithm = start_offline(
        BcAlgorithm, random_tape(action_type="continuous"), env_kwargs={"action_type": "continuous"}
    )
    batch = sequence(torch.zeros(2, 3, 1), torch.tensor([[[0.5], [0.7], [1.0]]]), torch.zeros(2, 3))
    distribution, _ = algorithm.actor_network(batch.time_step.observation[:1])
    mean, std = distribution.mean.detach(), distribution.std.detach()
    expected = 0.5 * ((batch.action - mean) / std).square() + std.log() + 0.5 * log(2 * pi)
    torch.testing.assert_close(algorithm.compute_loss(batch).loss.detach(), expected.squeeze(-1))


def test_in_evaluation_it_takes_the_likeliest_action() -> None:
    algorithm = start_offline(
        BcAlgorithm, random_tape(action_type="continuous"), env_kwargs={"action_type": "continuous"}
    )
    time_step: TimeStep = algorithm.time_step
    distribution, _ = algorithm.actor_network(time_step.observation)
    assert torch.equal(algorithm.predict_step(time_step, ()).output, distribution.mode())
    explored = algorithm.rollout_step(time_step, ()).output
    assert not torch.equal(explored, distribution.mode())
    assert algorithm.explain_step(time_step, (), explored).policy.shape == (4, 2, 1)


@pytest.mark.parametrize("option", [{"unroll_length": 3}, {"rl_train_after_update_steps": 5}])
def test_options_about_acting_are_refused(option: dict[str, Any]) -> None:
    config = TrainerConfig(algorithm_ctor=BcAlgorithm, offline_buffer_dir="data", **option)
    with create_environment(POLICY) as env, pytest.raises(ConfigProblems, match="it never acts in the training"):
        build_algorithm(config, env, Seeds(0))

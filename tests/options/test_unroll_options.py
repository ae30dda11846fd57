"""How experience is made, in this process."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish import nest
from alfish.training.trainer import Trainer
from alfish.types import Experience, StepType
from tests.options.running import A2C, CARTPOLE, DQN, ENDLESS, PPO, SAC, refusal, train

DEFAULT_LENGTH = {"unroll_length": 8}  # the presets set another one
MEMORY = """
create_environment.env_name = "alfish/RNNPolicyUnittest-v0"
DqnAlgorithm.q_network_ctor = @QRnnNetwork
"""
PPO_MEMORY = """
create_environment.env_name = "alfish/RNNPolicyUnittest-v0"
PPOAlgorithm.actor_network_ctor = @ActorDistributionRnnNetwork
PPOAlgorithm.value_network_ctor = @ValueRnnNetwork
"""


@pytest.mark.parametrize("preset", [DQN, PPO])
def test_unroll_length_carries_fractions(preset: str) -> None:
    assert train(preset, ENDLESS, unroll_length=2.5).per_iteration("env_steps") == [8, 12, 8, 12]
    run = train(preset, ENDLESS, unroll_length=0.25, num_iterations=8, root_dir="quarter")
    assert run.per_iteration("env_steps") == [0, 0, 0, 4, 0, 0, 0, 4]


def test_unroll_length_keeps_its_fraction_in_the_checkpoint() -> None:
    train(DQN, ENDLESS, unroll_length=2.5, num_iterations=1)
    assert train(DQN, ENDLESS, unroll_length=2.5, num_iterations=2).per_iteration("env_steps") == [12]


def test_unroll_length_zero_needs_workers() -> None:
    assert "needs async_unroll = True" in refusal(DQN, unroll_length=0)


def finished(experience: Experience) -> list[int]:
    """How many episodes end in each column. After its last one an environment waits at LAST."""
    is_last = experience.time_step.step_type == StepType.LAST
    return (is_last[1:] & ~is_last[:-1]).sum(0).tolist()


def test_unroll_episodes() -> None:
    ends: list[list[int]] = []

    def watch(trainer: Trainer) -> None:
        trainer.algorithm.after_train_iter = lambda experience: ends.append(finished(experience))

    run = train(PPO, CARTPOLE, prepare=watch, unroll_episodes=6, num_iterations=3, **DEFAULT_LENGTH)
    assert run.per_iteration("episodes") == [6, 6, 6]
    assert ends == [[2, 2, 1, 1]] * 3, "equally many of each environment, however long they are"


def test_unroll_episodes_excludes_unroll_length() -> None:
    assert "are two ways to unroll" in refusal(PPO, unroll_episodes=6)


@pytest.mark.parametrize("with_grad", [True, False])
def test_unroll_with_grad_builds_the_graph_while_unrolling(with_grad: bool) -> None:
    modes: set[bool] = set()

    def watch(trainer: Trainer) -> None:
        rollout_step = trainer.algorithm.rollout_step
        trainer.algorithm.rollout_step = lambda *given: modes.add(torch.is_grad_enabled()) or rollout_step(*given)

    train(A2C, CARTPOLE, prepare=watch, unroll_with_grad=with_grad)
    assert modes == {with_grad}


def test_unroll_with_grad_gives_the_same_parameters() -> None:
    runs = [train(A2C, CARTPOLE, unroll_with_grad=with_grad, root_dir=str(with_grad)) for with_grad in (True, False)]
    torch.testing.assert_close(runs[0].weights, runs[1].weights)


@pytest.mark.parametrize(("preset", "why"), [(DQN, "learns from replay"), (PPO, "several updates per unroll")])
def test_unroll_with_grad_is_refused_where_the_graph_serves_nothing(preset: str, why: str) -> None:
    message = refusal(preset, unroll_with_grad=True)
    assert "TrainerConfig.unroll_with_grad = True" in message
    assert why in message


def states(text: str, **options: Any) -> list[torch.Tensor]:
    """The sizes `[B]` of the states that the sequences of every mini batch of DQN begin with; none: no states."""
    found: list[torch.Tensor] = []

    def watch(trainer: Trainer) -> None:
        compute_loss = trainer.algorithm.compute_loss

        def watched(batch: Experience) -> Any:
            if batch.state != ():
                sizes = [leaf[0].flatten(1).abs().sum(1) for leaf in nest.leaves(batch.state)]
                found.append(torch.stack(sizes).sum(0))
            return compute_loss(batch)

        trainer.algorithm.compute_loss = watched

    train(DQN, text, prepare=watch, mini_batch_length=3, **options)
    return found


def test_use_rollout_state() -> None:
    found = torch.cat(states(MEMORY, use_rollout_state=True))
    assert (found > 0).any(), "in the middle of an episode"
    assert (found == 0).any(), "at its beginning"


def test_use_rollout_state_false_begins_with_zeros() -> None:
    assert states(MEMORY, use_rollout_state=False) == []


def test_use_rollout_state_on_policy_changes_what_is_learned() -> None:
    options = {"mini_batch_length": 1, "unroll_length": 4}
    with_state, without = (
        train(PPO, PPO_MEMORY, use_rollout_state=uses, root_dir=str(uses), **options) for uses in (True, False)
    )
    assert not torch.equal(with_state.weights, without.weights)


def test_use_rollout_state_without_memory_is_idle_and_that_is_said() -> None:
    run = train(DQN, use_rollout_state=True)
    assert "TrainerConfig.use_rollout_state: no effect, since DqnAlgorithm has no memory" in run.console


def train_step_calls(text: str = "", **options: Any) -> tuple[set[int], torch.Tensor]:
    """The batch sizes that `train_step` of PPO is called with, and the parameters in the end."""
    sizes: set[int] = set()

    def watch(trainer: Trainer) -> None:
        train_step = trainer.algorithm.train_step
        trainer.algorithm.train_step = lambda step, *others: sizes.add(len(step.step_type)) or train_step(step, *others)

    run = train(PPO, text, prepare=watch, root_dir=str(options) + str(len(text)), **options)
    return sizes, run.weights


def test_temporally_independent_train_step() -> None:
    (flat, by_flat), (single, by_single), (inferred, _) = (
        train_step_calls(temporally_independent_train_step=choice) for choice in (True, False, None)
    )
    assert single == {4}, "the steps of 4 environments one after the other"
    assert 4 not in flat | inferred, "or all 5 of them at once"
    torch.testing.assert_close(by_flat, by_single)


def test_temporally_independent_train_step_with_memory() -> None:
    (inferred, by_inferred), (single, by_single) = (
        train_step_calls(PPO_MEMORY, temporally_independent_train_step=choice) for choice in (None, False)
    )
    assert single == {4}
    assert 4 not in inferred, "the networks go along the sequence by themselves"
    torch.testing.assert_close(by_inferred, by_single)
    assert "has memory" in refusal(PPO, PPO_MEMORY, temporally_independent_train_step=True)


@pytest.mark.parametrize("preset", [DQN, SAC])
def test_temporally_independent_train_step_is_refused_where_sequences_go_at_once(preset: str) -> None:
    message = refusal(preset, temporally_independent_train_step=False)
    assert "TrainerConfig.temporally_independent_train_step: has no effect on" in message

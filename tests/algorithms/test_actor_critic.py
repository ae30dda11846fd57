"""A2C: one update per unroll, the same whichever way the gradient is computed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from alfish import nest, specs
from alfish.algorithms.actor_critic import ActorCriticAlgorithm, epsilon_greedy_action
from alfish.algorithms.actor_critic_loss import ActorCriticInfo, ActorCriticLoss
from alfish.algorithms.on_policy import cut
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.ppo_loss import PPOLoss
from alfish.algorithms.unroller import Unrolled
from alfish.networks.distributions import Categorical
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.network import Network
from alfish.networks.recurrent import GRUEncodingNetwork
from alfish.optimizers.adam import Adam
from alfish.optimizers.sgd import SGD
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Experience, LossInfo, Nest, StepType, TimeStep
from tests.algorithms.runs import start_run


def parameters(algorithm: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in algorithm.parameters()])


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("iterations", [1, 3])
def test_unroll_with_grad_gives_the_same_parameters(recurrent: bool, iterations: int) -> None:
    found = []
    for with_grad in (False, True):
        algorithm = start_run(
            unroll_length=10, unroll_with_grad=with_grad, recurrent=recurrent, optimizer=Adam(lr=0.01)
        )
        before = parameters(algorithm)
        for _ in range(iterations):
            algorithm.train_iter()
        found.append(parameters(algorithm))
    assert not torch.equal(found[0], before)
    assert torch.allclose(found[0], found[1], atol=1e-5)
    assert algorithm.progress.updates == iterations


def test_training_stepwise_gives_the_same_parameters_for_networks_with_memory() -> None:
    found = []
    for stepwise in (False, True):
        algorithm = start_run(unroll_length=12, recurrent=True)
        algorithm.stepwise_training = stepwise
        for _ in range(3):
            algorithm.train_iter()
        found.append(parameters(algorithm))
    assert torch.allclose(found[0], found[1], atol=1e-5)


def test_values_judged_afterwards_equal_those_while_acting() -> None:
    algorithm = start_run(unroll_length=10, unroll_with_grad=True)
    experience = algorithm.unroll(10)
    while_acting = algorithm._judge(experience)
    algorithm._values_while_acting = False
    assert torch.allclose(while_acting, algorithm._judge(experience), atol=1e-6)
    assert while_acting.shape == (11, 4)


def test_memory_is_carried_from_one_unroll_to_the_next_and_forgotten_at_first() -> None:
    algorithm = start_run(
        env_name="alfish/RNNPolicyUnittest-v0", env_kwargs={"gap": 3}, unroll_length=2, recurrent=True
    )
    first, second = algorithm.unroll(2), algorithm.unroll(2)
    assert torch.equal(nest.leaves(second.state)[0][0], nest.leaves(first.final_state)[0])
    assert nest.leaves(second.state)[0][0].abs().sum() > 0
    experience = algorithm.unroll(12)
    at_first = experience.time_step.is_first()[:-1]
    assert at_first.any()
    assert all((leaf[at_first] == 0).all() for leaf in nest.leaves(experience.state))


def test_the_graph_of_an_unroll_does_not_reach_into_the_one_before() -> None:
    algorithm = start_run(unroll_length=4, unroll_with_grad=True, recurrent=True)
    algorithm.train_iter()
    algorithm.train_iter()  # would fail: "backward through the graph a second time"
    assert algorithm.progress.updates == 2


def test_epsilon_greedy_samples_for_that_share_of_environments() -> None:
    distribution = Categorical(torch.log(torch.tensor([[0.6, 0.4]])).expand(20000, 2))
    generator = torch.Generator().manual_seed(0)
    assert (epsilon_greedy_action(distribution, 0.0, generator) == 0).all()
    half = epsilon_greedy_action(distribution, 0.5, generator).float().mean().item()
    assert half == pytest.approx(0.5 * 0.4, abs=0.01)
    assert epsilon_greedy_action(distribution, 1.0, generator).float().mean().item() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("reward_dim", [1, 3])
def test_finds_the_best_of_three_arms(reward_dim: int) -> None:
    algorithm = start_run(
        env_name="alfish/ThreeArmedBandit-v0",
        env_kwargs={"reward_dim": reward_dim},
        num_environments=3,
        unroll_length=5,
        optimizer=Adam(lr=0.02),
    )
    for _ in range(100):
        algorithm.train_iter()
    distribution, _ = algorithm.actor_network(algorithm.time_step.observation)
    log_probs = torch.stack([distribution.log_prob(torch.full((3,), arm)) for arm in range(3)])
    assert (log_probs[1] > log_probs[0]).all()
    assert (log_probs[1] > log_probs[2]).all()
    assert algorithm.progress.iterations == 100


@pytest.mark.parametrize(("truncates", "expected"), [(False, 1.0), (True, 2.0)])
def test_learns_that_time_limits_bootstrap_and_real_ends_do_not(truncates: bool, expected: float) -> None:
    """Episodes of one step with reward 1; with a time limit the value is that of going on for ever."""
    algorithm = start_run(
        env_name="alfish/ConstantRewardProbe-v0",
        env_kwargs={"episode_length": 1, "truncates": truncates},
        unroll_length=8,
        num_environments=8,
        optimizer=Adam(lr=0.02),
        loss_class=partial(ActorCriticLoss, gamma=0.5),
    )
    for _ in range(400):
        algorithm.train_iter()
    experience: Experience = algorithm.unroll(8)
    values = algorithm._judge(experience)[experience.time_step.is_first()]
    assert values.mean().item() == pytest.approx(expected, rel=0.02)


def test_mixed_actions_are_learned() -> None:
    algorithm = start_run(
        env_name="alfish/MixedPolicyUnittest-v0",
        num_environments=32,
        unroll_length=8,
        optimizer=Adam(lr=0.01),
        loss_class=partial(ActorCriticLoss, gamma=0.0, normalize_advantages=True),
    )
    for _ in range(200):
        algorithm.train_iter()
    rewards = algorithm.unroll(10).time_step
    assert rewards.reward[1:][~rewards.is_first()[1:]].mean().item() > 0.9


@pytest.mark.parametrize(
    ("cls", "options", "number"),
    [
        (PPOAlgorithm, {"mini_batch_length": 1, "mini_batch_size": 16, "num_updates_per_train_iter": 2}, 8),
        (PPOAlgorithm, {"mini_batch_length": 1, "mini_batch_size": 24, "num_updates_per_train_iter": 2}, 4),
        (ActorCriticAlgorithm, {}, 1),
        (ActorCriticAlgorithm, {"unroll_with_grad": True}, 1),
    ],
)
def test_every_mini_batch_has_normalized_advantages(
    monkeypatch: pytest.MonkeyPatch, cls: Any, options: dict[str, Any], number: int
) -> None:
    original, infos = ActorCriticLoss.__call__, []

    def call(self: ActorCriticLoss, info: ActorCriticInfo, *rest: Any, **others: Any) -> LossInfo:
        infos.append(info)
        return original(self, info, *rest, **others)

    monkeypatch.setattr(ActorCriticLoss, "__call__", call)
    loss = partial(PPOLoss if cls is PPOAlgorithm else ActorCriticLoss, normalize_advantages=True)
    start_run(cls, unroll_length=16, loss_class=loss, **options).train_iter()
    assert len(infos) == number
    for info in infos:
        counted = info.advantage[info.valid.bool()]
        assert counted.mean().item() == pytest.approx(0, abs=1e-6)
        assert counted.std(correction=0).item() == pytest.approx(1, abs=1e-5)
        assert (info.advantage[~info.valid.bool()] == 0).all()


DENSE = partial(EncodingNetwork, fc_layer_params=(8,))
GRU = partial(GRUEncodingNetwork, hidden_size=6)


class Identity(Network):
    """Shares nothing but the observation."""

    def __init__(self, input_tensor_spec: Nest) -> None:
        super().__init__(input_tensor_spec, output_size=input_tensor_spec.shape[0])

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        return inputs, state


@pytest.mark.parametrize("recurrent", [False, True])
def test_sharing_the_observation_itself_is_sharing_nothing(recurrent: bool) -> None:
    found = []
    for encoding in (None, Identity):
        algorithm = start_run(PPOAlgorithm, unroll_length=10, recurrent=recurrent, encoding=encoding)
        for _ in range(3):
            algorithm.train_iter()
        found.append(parameters(algorithm))
    assert torch.allclose(found[0], found[1], atol=1e-5)


def test_policy_and_value_see_the_features() -> None:
    algorithm = start_run(encoding=DENSE)
    assert algorithm.actor_network.input_tensor_spec == algorithm.value_network.input_tensor_spec == TensorSpec((8,))
    time_step = algorithm.time_step
    features = torch.relu(time_step.observation @ shared_weight(algorithm).T)  # biases are 0 at first
    for info in (
        algorithm.rollout_step(time_step, ()).info,
        algorithm.train_step(time_step, (), algorithm.rollout_step(time_step, ()).info).info,
    ):
        torch.testing.assert_close(info.value, algorithm.value_network(features)[0])
        expected = algorithm.actor_network(features)[0]
        torch.testing.assert_close(info.action_distribution.entropy(), expected.entropy())
    greedy = algorithm.predict_step(time_step, ()).output
    assert torch.equal(greedy, algorithm.actor_network(features)[0].mode())
    explanation = algorithm.explain_step(time_step, (), greedy)
    torch.testing.assert_close(explanation.value, algorithm.value_network(features)[0])


def shared_weight(algorithm: Any) -> torch.Tensor:
    return next(weight for weight in algorithm.encoding_network.parameters() if weight.dim() == 2).detach()


def test_what_is_shared_is_computed_once_a_step_and_once_a_mini_batch() -> None:
    algorithm = start_run(
        PPOAlgorithm,
        encoding=DENSE,
        unroll_length=8,
        num_updates_per_train_iter=3,
        mini_batch_length=1,
        mini_batch_size=16,
    )
    sizes: list[int] = []
    algorithm.encoding_network._encoding.register_forward_pre_hook(
        lambda _, arguments: sizes.append(arguments[0].shape[0])
    )
    algorithm.train_iter()
    # 8 steps of 4 environments, the step after them, whose value bootstraps, and 3 passes of 2 mini batches.
    assert sizes == [4] * 8 + [4] + [16] * 6


def test_the_gradients_of_policy_and_value_add_up_in_what_they_share() -> None:
    algorithm = start_run(encoding=DENSE, unroll_length=6, optimizer=SGD(lr=0.1))
    shared = list(algorithm.encoding_network.parameters())
    before = [parameter.detach().clone() for parameter in shared]
    experience = algorithm.unroll(6)
    assert not (experience.time_step.step_type == StepType.LAST).any()
    with torch.no_grad():
        prepared = algorithm.preprocess_experience(experience)
    batch = cut(prepared, 6, use_state=True)
    losses = algorithm.calc_loss(algorithm.train_steps(batch.time_step, batch.state, batch.rollout_info)).extra
    of_policy, of_value = (
        torch.autograd.grad(losses[name].mean(), shared, retain_graph=True) for name in ("policy_loss", "value_loss")
    )
    algorithm.loop.train(Unrolled(experience, experience.time_step))
    for parameter, then, policy, value in zip(shared, before, of_policy, of_value, strict=True):
        assert policy.abs().sum() > 0
        assert value.abs().sum() > 0
        torch.testing.assert_close(parameter.detach(), then - 0.1 * (policy + 0.5 * value))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("encoding", [DENSE, GRU], ids=["dense", "gru"])
def test_what_is_shared_may_have_memory_and_so_may_policy_and_value(encoding: Any, recurrent: bool) -> None:
    found = []
    for way in ("at once", "in steps", "with the graph of the unroll"):
        algorithm = start_run(
            encoding=encoding,
            recurrent=recurrent,
            unroll_length=12,
            unroll_with_grad=way == "with the graph of the unroll",
            optimizer=Adam(lr=0.01),
        )
        algorithm.stepwise_training = way == "in steps"
        for _ in range(3):
            algorithm.train_iter()
        found.append(parameters(algorithm))
    assert torch.allclose(found[0], found[1], atol=1e-5)
    assert torch.allclose(found[0], found[2], atol=1e-5)


def test_shared_memory_is_carried_on_in_play() -> None:
    algorithm = start_run(encoding=GRU)
    step = algorithm.predict_step(algorithm.time_step, specs.zeros(algorithm.predict_state_spec, 4))
    assert nest.leaves(step.state.encoding)[0].abs().sum() > 0
    again = algorithm.predict_step(algorithm.time_step, step.state)
    assert not torch.equal(nest.leaves(again.state.encoding)[0], nest.leaves(step.state.encoding)[0])


def test_an_action_mask_reaches_the_policy_through_what_is_shared() -> None:
    observation = {"position": TensorSpec((3,)), "action_mask": TensorSpec((4,), torch.int8)}
    action = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(3))
    algorithm = ActorCriticAlgorithm(observation, action, encoding_network_ctor=DENSE)
    mask = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]], dtype=torch.int8)
    time_step = TimeStep(
        step_type=torch.zeros(2, dtype=torch.int32),
        reward=torch.zeros(2),
        discount=torch.ones(2),
        observation={"position": torch.randn(2, 3), "action_mask": mask},
        prev_action=torch.zeros(2, dtype=torch.int64),
        env_id=torch.arange(2),
    )
    assert algorithm.predict_step(time_step, ()).output.tolist() == [2, 0]
    assert algorithm.rollout_step(time_step, ()).output.tolist() == [2, 0]

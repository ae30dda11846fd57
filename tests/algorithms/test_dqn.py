"""DQN: targets by hand, exploration, masks, memory, and environments with a known optimum."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from alfish import nest
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.td_loss import TDLoss
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.errors import ConfigError
from alfish.networks.network import Network
from alfish.networks.q import QNetwork, QRnnNetwork
from alfish.optimizers.adam import Adam
from alfish.optimizers.schedulers import LinearScheduler
from alfish.optimizers.sgd import SGD
from alfish.seeding import Seeds
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Experience, StepType, TimeStep, replace
from tests.algorithms.runs import started

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST
TWO = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(1))
SAMPLED = {"whole_replay_buffer_training": False, "mini_batch_size": 64, "replay_buffer_length": 2000}


class Table(Network):
    """Q of the states 0, 1, 2, ..., which are the observation; `[states, N]` or `[states, N, R]`."""

    def __init__(self, rows: Any, **specs: Any) -> None:
        super().__init__(specs["input_tensor_spec"])
        self.rows = torch.nn.Parameter(torch.tensor(rows))

    def forward(self, inputs: Any, state: Any = ()) -> Any:
        return self.rows[inputs.squeeze(-1).long()], state


def tabular(rows: Any, target_rows: Any, reward_spec: TensorSpec = TensorSpec(()), **arguments: Any) -> DqnAlgorithm:
    algorithm = DqnAlgorithm(
        TensorSpec((1,)),
        arguments.pop("action_spec", TWO),
        reward_spec,
        q_network_ctor=partial(Table, rows),
        optimizer=SGD(lr=1.0),
        **{"critic_loss_ctor": partial(TDLoss, gamma=0.5), **arguments},
    )
    algorithm.target_q_network.rows.copy_(torch.tensor(target_rows))
    return algorithm


def sequence(
    rewards: list[Any],
    actions: list[int],
    discounts: list[float] | None = None,
    step_types: list[int] | None = None,
) -> Experience:
    """States 0, 1, 2, ... of one environment."""
    length = len(rewards)
    time_step = TimeStep(
        torch.tensor(step_types or [MID] * length).unsqueeze(1),
        torch.tensor(rewards).unsqueeze(1),
        torch.tensor(discounts or [1.0] * length).unsqueeze(1),
        torch.arange(length).float().reshape(length, 1, 1),
        torch.zeros(length, 1, dtype=torch.int64),
        torch.zeros(length, 1, dtype=torch.int64),
    )
    return Experience(time_step, torch.tensor(actions).unsqueeze(1))


ROWS = [[1.0, 2.0], [5.0, 4.0], [0.0, 7.0], [3.0, 1.0]]
TARGET_ROWS = [[0.0, 0.0], [10.0, 20.0], [30.0, 20.0], [8.0, 6.0]]


@pytest.mark.parametrize(
    ("double", "target"),
    [(True, 1 + 0.5 * 10), (False, 1 + 0.5 * 20)],  # the trained network prefers action 0, the target network 1
)
def test_one_step_by_hand(double: bool, target: float) -> None:
    algorithm = tabular(ROWS, TARGET_ROWS, double_q=double)
    info = algorithm.compute_loss(sequence([0.0, 1.0], [1]))
    assert info.loss.tolist() == [[(2 - target) ** 2]]
    assert info.priority.tolist() == [target - 2]


@pytest.mark.parametrize(
    ("discounts", "step_types", "target"),
    [
        ([1.0] * 4, [MID] * 4, 1 + 0.5 * 2 + 0.25 * 4 + 0.125 * 8),
        ([1.0, 1, 0, 1], [MID, MID, LAST, FIRST], 1 + 0.5 * 2),  # a real end: no value
        ([1.0] * 4, [MID, MID, LAST, FIRST], 1 + 0.5 * 2 + 0.25 * 20),  # a time limit: the value of its state
    ],
)
def test_three_steps_train_the_first_action(discounts: list[float], step_types: list[int], target: float) -> None:
    algorithm = tabular(ROWS, TARGET_ROWS, critic_loss_ctor=partial(TDLoss, gamma=0.5, num_steps=3))
    assert algorithm.sequence_length == 4
    info = algorithm.compute_loss(sequence([0.0, 1, 2, 4], [0, 0, 0], discounts, step_types))
    number = sum(kind != LAST for kind in step_types[:3])
    # The mean over the steps that count is the loss of the first.
    assert info.loss.flatten().tolist() == pytest.approx([number * (1 - target) ** 2, 0, 0])
    assert info.priority.tolist() == pytest.approx([target - 1])
    info.loss.sum().backward()
    assert algorithm.q_network.rows.grad.ne(0).tolist() == [[True, False]] + [[False, False]] * 3


def test_an_ignored_action_has_no_priority() -> None:
    algorithm = tabular(ROWS, TARGET_ROWS)
    assert algorithm.compute_loss(sequence([0.0, 1], [0], step_types=[LAST, FIRST])).priority.tolist() == [0]
    longer = algorithm.compute_loss(sequence([0.0, 1, 0], [1, 0], [1.0, 0, 1], [MID, LAST, FIRST]))
    assert longer.priority.tolist() == [1]  # |2 - 1|, alone


def test_vector_rewards_have_a_value_each_and_the_largest_sum_decides() -> None:
    rows = [[[1.0, 1.0], [0.0, 0.0]], [[5.0, 0.0], [0.0, 6.0]]]
    algorithm = tabular(rows, rows, TensorSpec((2,)))
    info = algorithm.compute_loss(sequence([[0.0, 0.0], [1.0, 2.0]], [0]))
    # Action 1 has the larger sum: targets 1 + 0 and 2 + 0.5 * 6, both values are 1.
    assert info.loss.tolist() == [[0 + 16]]
    assert info.priority.tolist() == [4]
    step = algorithm.predict_step(nest.index(sequence([[0.0, 0.0]] * 2, [0]).time_step, 1), ())
    assert step.output.tolist() == [1]


def test_reward_weights_decide_which_action_is_the_best() -> None:
    rows = [[[1.0, 1.0], [0.0, 0.0]], [[5.0, 0.0], [0.0, 6.0]]]
    algorithm = tabular(rows, rows, TensorSpec((2,)), reward_weights=(1.0, 0.5))
    # Weighted, action 0 is worth 5 and action 1 only 3: targets 1 + 0.5 * 5 and 2 + 0, both values are 1.
    assert algorithm.compute_loss(sequence([[0.0, 0.0], [1.0, 2.0]], [0])).loss.tolist() == [[2.5**2 + 1]]
    step = algorithm.predict_step(nest.index(sequence([[0.0, 0.0]] * 2, [0]).time_step, 1), ())
    assert step.output.tolist() == [0]
    with pytest.raises(ConfigError, match="2 weights are needed"):
        tabular(rows, rows, TensorSpec((2,)), reward_weights=(1.0,))


def test_actions_that_do_not_start_at_0() -> None:
    spec = BoundedTensorSpec((), torch.int64, np.asarray(3), np.asarray(4))
    algorithm = tabular(ROWS, TARGET_ROWS, action_spec=spec)
    assert algorithm.predict_step(nest.index(sequence([0.0], []).time_step, 0), ()).output.tolist() == [4]
    assert algorithm.compute_loss(sequence([0.0, 1.0], [4])).priority.tolist() == [4]  # |2 - 6|


def test_target_network_moves_with_every_update_exactly() -> None:
    algorithm = start(algorithm={"target_update_tau": 0.25}, unroll_length=4, num_updates_per_train_iter=1)
    old = [parameter.clone() for parameter in algorithm.target_q_network.parameters()]
    algorithm.train_iter()
    pairs = zip(old, algorithm.q_network.parameters(), algorithm.target_q_network.parameters(), strict=True)
    for before, source, target in pairs:
        torch.testing.assert_close(target, 0.75 * before + 0.25 * source)
        assert not target.requires_grad
    assert algorithm.progress.updates == 1


# Exploration


def observed(batch: int, mask: list[int] | None = None) -> TimeStep:
    rows = torch.zeros(batch, dtype=torch.int64)
    observation: Any = torch.zeros(batch, 1)
    if mask is not None:
        observation = {"x": observation, "action_mask": torch.tensor(mask).expand(batch, -1)}
    return TimeStep(rows, rows.float(), rows.float(), observation, rows, rows)


def test_epsilon_is_in_the_summaries() -> None:
    schedule = LinearScheduler("env_steps", [(0, 1.0), (8, 0.0)])
    algorithm = start(algorithm={"rollout_epsilon_greedy": schedule})
    algorithm.summary.enabled = True
    algorithm.train_iter()
    assert algorithm.summary.write()["Exploration/epsilon"] == schedule(algorithm.progress) < 1.0


def test_random_actions_come_as_often_as_epsilon_says() -> None:
    four = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(3))
    schedule = LinearScheduler("env_steps", [(0, 1.0), (100, 0.0)])
    algorithm = tabular([[0.0, 1.0, 0.0, 0.0]], [[0.0] * 4], action_spec=four, rollout_epsilon_greedy=schedule)
    for env_steps, epsilon in ((0, 1.0), (60, 0.4), (100, 0.0)):
        algorithm.progress.env_steps = env_steps
        actions = algorithm.rollout_step(observed(40_000), ()).output
        shares = actions.bincount(minlength=4) / 40_000
        expected = torch.tensor([0.0, 1 - epsilon, 0, 0]) + epsilon / 4
        torch.testing.assert_close(shares, expected, atol=0.01, rtol=0)
    assert algorithm.predict_step(observed(1000), ()).output.eq(1).all()
    algorithm.epsilon_greedy = 0.5
    assert algorithm.predict_step(observed(10_000), ()).output.eq(1).float().mean().item() == pytest.approx(
        0.625, abs=0.02
    )


def test_forbidden_actions_are_never_taken_nor_bootstrapped_from() -> None:
    spec = {"x": TensorSpec((1,)), "action_mask": TensorSpec((4,), torch.int64)}
    four = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(3))
    for dueling in (False, True):
        algorithm = DqnAlgorithm(spec, four, q_network_ctor=partial(QNetwork, dueling=dueling), optimizer=SGD())
        for epsilon in (0.0, 0.5, 1.0):
            algorithm._epsilon = lambda progress, epsilon=epsilon: epsilon
            actions = algorithm.rollout_step(observed(2000, [0, 1, 0, 1]), ()).output
            assert set(actions.tolist()) <= {1, 3}
        shares = actions.bincount(minlength=4) / 2000
        assert shares.tolist() == pytest.approx([0, 0.5, 0, 0.5], abs=0.05)
        for allowed in range(4):
            mask = [int(action == allowed) for action in range(4)]
            time_step = nest.stack([observed(1, [1] * 4), observed(1, mask)])
            experience = Experience(replace(time_step, discount=torch.ones(2, 1)), torch.tensor([[0]]))
            q = algorithm.q_network(observed(1, [1] * 4).observation)[0][0]
            assert algorithm.compute_loss(experience).priority.item() == pytest.approx(
                abs(q[0].item() - 0.99 * q[allowed].item()), abs=1e-5
            )


def test_noisy_layers_explore_repeatably_and_are_quiet_in_evaluation() -> None:
    def actions(seed: int) -> list[int]:
        torch.manual_seed(0)
        algorithm = DqnAlgorithm(
            TensorSpec((1,)), TWO, q_network_ctor=partial(QNetwork, noise_std=2.0), rollout_epsilon_greedy=0.0
        )
        algorithm.generator.manual_seed(seed)
        torch.manual_seed(seed)
        taken = [algorithm.rollout_step(observed(1), ()).output.item() for _ in range(50)]
        with algorithm.evaluating(torch.Generator()):
            assert len({algorithm.predict_step(observed(1), ()).output.item() for _ in range(20)}) == 1
        return taken

    first = actions(1)
    assert set(first) == {0, 1}
    assert actions(1) == first
    assert actions(2) != first


def test_noise_is_drawn_anew_for_every_update_in_both_networks() -> None:
    algorithm = DqnAlgorithm(TensorSpec((1,)), TWO, q_network_ctor=partial(QNetwork, noise_std=0.5, dueling=True))
    assert len(algorithm._noisy_all) == 4
    experience = sequence([0.0, 1.0], [0])
    losses = {algorithm.compute_loss(experience).loss.item() for _ in range(5)}
    assert len(losses) == 5


# Refusals


@pytest.mark.parametrize(
    ("env_name", "message"),
    [
        ("Pendulum-v1", r"Pendulum-v1 has Box\(1,\): use SAC, TD3 or DDPG"),
        ("alfish/MixedPolicyUnittest-v0", "nested actions: use SAC or PPO"),
    ],
)
def test_other_actions_are_refused(env_name: str, message: str) -> None:
    env = create_environment(env_name)
    with pytest.raises(ConfigError, match=message):
        DqnAlgorithm(env.observation_spec, env.action_spec, env=env)


def test_several_discrete_choices_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"several discrete choices, shape \(2,\): use PPO"):
        DqnAlgorithm(TensorSpec((1,)), BoundedTensorSpec((2,), torch.int64))


def test_sequences_without_anything_to_train_are_refused() -> None:
    network = partial(QRnnNetwork, lstm_hidden_size=4)
    config = TrainerConfig(algorithm_ctor=DqnAlgorithm, mini_batch_length=4, whole_replay_buffer_training=False)
    with pytest.raises(ConfigError, match=r"mini_batch_length = 4 leaves nothing to train.* takes 5 time steps"):
        DqnAlgorithm(TensorSpec((1,)), TWO, config=config, q_network_ctor=network, burn_in_length=3)
    with pytest.raises(ConfigError, match="no memory to warm up"):
        DqnAlgorithm(TensorSpec((1,)), TWO, burn_in_length=3)


# Memory


def recurrent(burn_in: int = 0, steps: int | None = 1) -> DqnAlgorithm:
    with Seeds(0).fork_torch("init"):
        return DqnAlgorithm(
            TensorSpec((1,)),
            TWO,
            q_network_ctor=partial(QRnnNetwork, lstm_hidden_size=6),
            critic_loss_ctor=partial(TDLoss, gamma=0.9, num_steps=steps),
            burn_in_length=burn_in,
        )


def random_sequence(length: int, batch: int = 3) -> Experience:
    generator = torch.Generator().manual_seed(0)
    step_type = torch.full((length + 1, batch), MID)
    step_type[3, 0], step_type[4, 0] = LAST, FIRST
    rows = torch.zeros(length + 1, batch, dtype=torch.int64)
    observation = torch.randn(length + 1, batch, 1, generator=generator)
    reward = torch.randn(length + 1, batch, generator=generator)
    state = nest.map(
        lambda spec: torch.randn(length, batch, *spec.shape, generator=generator), recurrent().train_state_spec
    )
    time_step = TimeStep(step_type, reward, torch.ones(length + 1, batch), observation, rows, rows)
    return Experience(time_step, torch.randint(2, (length, batch), generator=generator), state=state)


def test_burn_in_steps_shape_the_state_and_nothing_else() -> None:
    """Training after a burn-in of 2 equals training the rest, begun with the states that the first 2 steps lead to."""
    experience = random_sequence(8)
    algorithm = recurrent(burn_in=2)
    with torch.no_grad():
        for parameter in algorithm.target_q_network.parameters():
            parameter.mul_(0.5)
    burnt = algorithm.compute_loss(experience)
    assert burnt.loss[:2].abs().sum() == 0

    plain = recurrent()
    plain.load_state_dict(algorithm.state_dict())
    state = nest.index(experience.state, 0)
    states = []
    for network in (plain.q_network, plain.target_q_network):
        after = state
        for t in range(2):
            _, after = network(experience.time_step.observation[t], after)
        states.append(nest.detach(after))
    rest = replace(experience, time_step=nest.map(lambda leaf: leaf[2:], experience.time_step))
    q, values = plain._judge(rest.time_step, (states[0], states[1]), 6)
    taken = q.gather(-1, experience.action[2:].unsqueeze(-1)).squeeze(-1)
    loss = plain.loss(taken, plain.loss.target(rest.time_step, values))
    counted = (experience.time_step.step_type[:-1] != LAST).float()
    scale = counted.sum() / counted[2:].sum()
    torch.testing.assert_close(burnt.loss[2:], loss * scale)
    burnt.loss.sum().backward()
    (loss * scale).sum().backward()
    for own, expected in zip(algorithm.q_network.parameters(), plain.q_network.parameters(), strict=True):
        torch.testing.assert_close(own.grad, expected.grad)
        assert own.grad.abs().sum() > 0


def test_state_is_stored_or_zero_and_begins_anew_at_first() -> None:
    algorithm, experience = recurrent(), random_sequence(8)
    stored, zero = (algorithm.compute_loss(each).loss for each in (experience, replace(experience, state=())))
    assert not torch.allclose(stored[0], zero[0])
    assert torch.allclose(stored[4:, 0], zero[4:, 0])  # environment 0 has a new episode there
    assert not torch.allclose(stored[4:, 1:], zero[4:, 1:])


# Learning


def start(
    env_name: str = "alfish/PolicyUnittest-v0",
    algorithm: dict[str, Any] | None = None,
    num_environments: int = 8,
    env_kwargs: dict[str, Any] | None = None,
    lr: float = 3e-3,
    seed: int = 0,
    **options: Any,
) -> Any:
    arguments: dict[str, Any] = {
        "q_network_ctor": partial(QNetwork, fc_layer_params=(32,)),
        "critic_loss_ctor": partial(TDLoss, gamma=0.9),
        **(algorithm or {}),
    }
    env = create_environment(env_name, num_parallel_environments=num_environments, env_kwargs=env_kwargs)
    config = TrainerConfig(algorithm_ctor=DqnAlgorithm, random_seed=seed, **{**SAMPLED, "unroll_length": 2, **options})
    with Seeds(seed).fork_torch("init"):
        made = DqnAlgorithm(
            env.observation_spec,
            env.action_spec,
            env.reward_spec,
            env=env,
            config=config,
            optimizer=Adam(lr=lr, gradient_clipping=10.0),
            **arguments,
        )
    return started(made, env, config, seed)


def reward_of_the_policy(algorithm: Any, first: int = 0, length: int = 5) -> float:
    """Mean reward of the greedy policy over steps `first` to `length - 1` of new episodes."""
    env = algorithm._env
    time_step = env.reset(seed=99)
    state = nest.map(lambda spec: spec.zeros(env.batch_size), algorithm.predict_state_spec)
    rewards = []
    with torch.no_grad():
        for _ in range(length):
            step = algorithm.predict_step(time_step, state)
            state, time_step = step.state, env.step(step.output)
            rewards.append(time_step.reward)
    return torch.stack(rewards[first:]).mean().item()


@pytest.mark.parametrize("reward_dim", [1, 3])
@pytest.mark.parametrize("priority", [False, True])
def test_learns_the_best_action(reward_dim: int, priority: bool) -> None:
    algorithm = start(env_kwargs={"reward_dim": reward_dim}, priority_replay=priority)
    for _ in range(60):
        algorithm.train_iter()
    assert reward_of_the_policy(algorithm) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "network",
    [
        partial(QNetwork, fc_layer_params=(32,), dueling=True),
        partial(QNetwork, fc_layer_params=(32,), dueling=True, head_fc_layer_params=(16,), noise_std=0.5),
    ],
    ids=["dueling", "noisy dueling"],
)
def test_learns_the_best_action_with_other_heads(network: Any) -> None:
    algorithm = start(algorithm={"q_network_ctor": network, "rollout_epsilon_greedy": 0.1})
    for _ in range(60):
        algorithm.train_iter()
    with algorithm.evaluating(torch.Generator()):
        assert reward_of_the_policy(algorithm) == pytest.approx(1.0)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("truncates", "value"), [(False, 1.0), (True, 2.0)])
def test_learns_the_value_of_ends_and_time_limits(steps: int, truncates: bool, value: float) -> None:
    """Reward 1 in episodes of one step: 1 when they end, 1 / (1 - 0.5) when they are cut off."""
    algorithm = start(
        "alfish/ConstantRewardProbe-v0",
        algorithm={"critic_loss_ctor": partial(TDLoss, gamma=0.5, num_steps=steps), "rollout_epsilon_greedy": 1.0},
        env_kwargs={"truncates": truncates},
        lr=1e-2,
    )
    for _ in range(150):
        algorithm.train_iter()
    q, _ = algorithm.q_network(torch.zeros(1, 1))
    assert q.flatten().tolist() == pytest.approx([value] * 2, abs=0.02)


def memory_run(iterations: int, **options: Any) -> float:
    """The cue is shown at step 0 and pays at steps 3 and 4; returns the reward there."""
    algorithm = {
        "q_network_ctor": partial(QRnnNetwork, lstm_hidden_size=16),
        "critic_loss_ctor": partial(TDLoss, gamma=0.5),
        "rollout_epsilon_greedy": 0.3,
        "burn_in_length": options.pop("burn_in_length", 0),
    }
    run = start("alfish/RNNPolicyUnittest-v0", algorithm, num_environments=20, lr=1e-2, **options)
    for _ in range(iterations):
        run.train_iter()
    return reward_of_the_policy(run, first=3)


@pytest.mark.parametrize("burn_in", [0, 3])
def test_memory_is_learned_from_sequences_that_hold_the_cue(burn_in: int) -> None:
    assert memory_run(60, mini_batch_length=7, burn_in_length=burn_in) == pytest.approx(1.0)


def test_a_cue_before_the_sequence_needs_the_stored_state() -> None:
    assert memory_run(80, mini_batch_length=3, use_rollout_state=True) == pytest.approx(1.0)
    assert memory_run(80, mini_batch_length=3, use_rollout_state=False) < 0.8

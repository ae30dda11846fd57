"""Several critics: which of their values counts, what they learn, what an actor sees of them."""

from __future__ import annotations

from functools import partial
from math import sqrt

import numpy as np
import pytest
import torch

from alfish.algorithms.critics import Critics, first_state, summarize_critics
from alfish.algorithms.td_loss import TDLoss
from alfish.errors import ConfigError
from alfish.networks.critic import CriticNetwork
from alfish.progress import Progress
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.summary.summary import Summary
from alfish.types import Experience, TimeStep

BOX = BoundedTensorSpec((1,), torch.float32, np.float32(-1), np.float32(1))


def made(
    number: int = 2, rewards: int = 0, weights: tuple[float, ...] | None = None, loss: TDLoss | None = None
) -> Critics:
    spec = TensorSpec((rewards,) if rewards else ())
    make = partial(CriticNetwork, (TensorSpec((2,)), BOX), spec, joint_fc_layer_params=(4,))
    return Critics(make, number, spec, weights, loss or TDLoss(gamma=0.5), tau=0.1, period=1)


def time_steps(rewards: list[float], discounts: list[float], step_types: list[int]) -> TimeStep:
    """`T + 1` time steps of one environment."""

    def column(values: list[float], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).unsqueeze(1)

    return TimeStep(
        step_type=column(step_types, torch.int32),
        reward=column(rewards),
        discount=column(discounts),
        observation=(),
        prev_action=(),
        env_id=torch.zeros(len(rewards), 1, dtype=torch.int64),
    )


def test_the_lowest_of_scalar_values() -> None:
    values = torch.tensor([[1.0, 5.0], [2.0, 3.0]])
    assert made().lowest(values).tolist() == [1.0, 3.0]
    assert made(1).lowest(values[:1]).tolist() == [1.0, 5.0]


def test_of_vector_values_the_critic_with_the_lowest_total_counts_as_a_whole() -> None:
    critics = made(2, 2, (1.0, -2.0))
    values = torch.tensor([[[1.0, 0.0], [4.0, 1.0]], [[2.0, 1.0], [4.0, 3.0]]])  # [N, B, R], totals 1 2 / 0 -2
    assert critics.total(values).tolist() == [[1.0, 2.0], [0.0, -2.0]]
    assert critics.lowest(values).tolist() == [[2.0, 1.0], [4.0, 3.0]]


@pytest.mark.parametrize("weights", [None, (1.0, -2.0), (3.0, 0.0)])
def test_a_bonus_that_is_spread_over_the_rewards_counts_once(weights: tuple[float, ...] | None) -> None:
    critics = made(2, 2, weights)
    bonus = torch.tensor([0.5, -2.0])
    torch.testing.assert_close(critics.total(critics.spread(bonus)), bonus)
    assert made().spread(bonus) is bonus


def test_wrong_reward_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"reward_weights = \(1.0,\).*shape \(2,\).*2 weights"):
        made(2, 2, (1.0,))
    with pytest.raises(ConfigError, match="not all of them 0"):
        made(2, 2, (0.0, 0.0))


@pytest.mark.parametrize(("discount", "target"), [(1.0, 3.0 + 0.5 * 8.0), (0.0, 3.0)])
def test_one_transition_by_hand(discount: float, target: float) -> None:
    value = torch.tensor([[[6.0]], [[4.0]]], requires_grad=True)  # [N, T, B]
    result = made().loss(time_steps([0.0, 3.0], [1.0, discount], [1, 2]), value, torch.tensor([[8.0]]))
    assert result.target.tolist() == [[target]]
    expected = (6 - target) ** 2 + (4 - target) ** 2
    assert result.loss.tolist() == [[expected]]
    assert result.priority.tolist() == [pytest.approx(sqrt(expected))]
    result.loss.sum().backward()
    assert value.grad.flatten().tolist() == [2 * (6 - target), 2 * (4 - target)]


def test_vector_rewards_are_summed() -> None:
    steps = time_steps([0.0, 0.0], [1.0, 1.0], [1, 1])
    steps = TimeStep(**{**vars(steps), "reward": torch.tensor([[[0.0, 0.0]], [[1.0, 2.0]]])})
    result = made(2, 2).loss(steps, torch.zeros(2, 1, 1, 2), torch.tensor([[[2.0, 4.0]]]))
    assert result.target.tolist() == [[[2.0, 4.0]]]
    assert result.loss.tolist() == [[2 * (4.0 + 16.0)]]


def test_the_priority_leaves_out_ignored_actions() -> None:
    steps = time_steps([0.0, 1.0, 9.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1, 2, 0, 1])
    value = torch.tensor([[[3.0], [50.0], [0.0]]])
    result = made(1).loss(steps, value, torch.tensor([[7.0], [0.0], [4.0]]))
    assert result.target.flatten().tolist()[::2] == [1.0, 3.0]
    assert result.priority.item() == pytest.approx(sqrt((4.0 + 9.0) / 2))


def test_n_step_targets_train_the_first_action() -> None:
    critics = made(1, loss=TDLoss(gamma=0.5, num_steps=2))
    steps = time_steps([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [1, 1, 1])
    result = critics.loss(steps, torch.zeros(1, 2, 1), torch.tensor([[100.0], [8.0]]))
    assert result.target.tolist() == [[1.0 + 0.5 * 2.0 + 0.25 * 8.0]]
    assert result.loss.tolist() == [[2 * 16.0], [0.0]]
    assert result.priority.tolist() == [4.0]


def test_frozen_critics_pass_gradients_on_and_get_none() -> None:
    critics = made()
    action = torch.zeros(3, 1, requires_grad=True)
    with critics.frozen() as frozen:
        values, _ = frozen((torch.ones(3, 2), action))
    values.sum().backward()
    assert action.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in critics.parameters())
    assert all(parameter.requires_grad for parameter in critics.online.parameters())
    assert not any(parameter.requires_grad for parameter in critics.target.parameters())


def test_freezing_leaves_alone_what_was_not_trained_before() -> None:
    critics = made()
    first, *others = critics.online.parameters()
    first.requires_grad_(False)
    with critics.frozen():
        assert not any(parameter.requires_grad for parameter in critics.online.parameters())
    assert not first.requires_grad
    assert all(parameter.requires_grad for parameter in others)


def test_targets_move() -> None:
    critics = made()
    before = next(critics.target.parameters()).clone()
    with torch.no_grad():
        for parameter in critics.online.parameters():
            parameter.add_(1.0)
    assert critics.targets_move_next
    critics.update_targets()
    torch.testing.assert_close(next(critics.target.parameters()), before + 0.1)


def test_sequences_begin_with_what_was_stored_else_with_zeros() -> None:
    steps = time_steps([0.0, 0.0], [1.0, 1.0], [1, 1])
    spec = {"memory": TensorSpec((2,))}
    assert first_state(spec, Experience(steps, ()))["memory"].tolist() == [[0.0, 0.0]]
    stored = {"memory": torch.arange(4.0).reshape(2, 1, 2)}
    assert first_state(spec, Experience(steps, (), state=stored))["memory"].tolist() == [[0.0, 1.0]]
    assert first_state((), Experience(steps, ())) == ()


def test_summaries() -> None:
    summary = Summary([], Progress())
    steps = time_steps([0.0, 3.0], [1.0, 0.0], [1, 2])
    result = made().loss(steps, torch.tensor([[[6.0]], [[4.0]]]), torch.tensor([[8.0]]))
    summarize_critics(summary, result)
    assert summary.write() == {}
    summary.enabled = True
    summarize_critics(summary, result)
    assert set(summary._collected.histograms) == {"Debug/critic/value", "Debug/critic/target", "Debug/priority"}
    assert summary.write() == {"Debug/critic/value": 5.0, "Debug/critic/disagreement": 1.0}

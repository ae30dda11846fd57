"""The loss of A2C, by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.algorithms.actor_critic_loss import ActorCriticInfo, ActorCriticLoss
from alfish.losses.policy_gradient import normalize_advantages
from alfish.networks.distributions import Categorical
from alfish.optimizers.schedulers import LinearScheduler
from alfish.progress import Progress
from alfish.types import StepType, TimeStep

LOG2 = 0.6931471805599453


def time_step(rewards: list[float], discounts: list[float], kinds: list[int]) -> TimeStep:
    column = torch.tensor(rewards).unsqueeze(1)
    return TimeStep(
        step_type=torch.tensor(kinds, dtype=torch.int32).unsqueeze(1),
        reward=column,
        discount=torch.tensor(discounts).unsqueeze(1),
        observation=column,
        prev_action=column,
        env_id=torch.zeros_like(column),
    )


def info(**changes: Any) -> ActorCriticInfo:
    fields: dict[str, Any] = {
        "action": torch.tensor([[0, 1]]),
        "action_distribution": Categorical(torch.zeros(1, 2, 2)),  # both actions with probability 1/2
        "value": torch.tensor([[1.0, 2.0]]),
        "advantage": torch.tensor([[3.0, -1.0]]),
        "target": torch.tensor([[2.0, 2.0]]),
        "valid": torch.ones(1, 2),
    }
    return ActorCriticInfo(**{**fields, **changes})


def test_an_entropy_without_weight_is_computed_for_the_summaries_only() -> None:
    logits = torch.tensor([[[0.0, 1.0], [2.0, 0.0]]], requires_grad=True)
    unsure = info(action_distribution=Categorical(logits))
    silent = ActorCriticLoss()(unsure, Progress(), diagnose=False)
    told = ActorCriticLoss()(unsure, Progress())
    assert set(told.extra) - set(silent.extra) == {"entropy"}
    assert not told.extra["entropy"].requires_grad
    assert torch.equal(told.loss, silent.loss)
    weighted = ActorCriticLoss(entropy_regularization=0.1)(unsure, Progress(), diagnose=False)
    assert torch.allclose(weighted.loss, silent.loss - 0.1 * told.extra["entropy"])


def test_parts_by_hand() -> None:
    loss = ActorCriticLoss(td_loss_weight=0.5, entropy_regularization=0.1)(info(), Progress())
    assert loss.extra["policy_loss"].tolist()[0] == pytest.approx([3 * LOG2, -LOG2])
    assert loss.extra["value_loss"].tolist() == [[1.0, 0.0]]
    assert loss.extra["entropy"].tolist()[0] == pytest.approx([LOG2, LOG2])
    assert loss.loss.tolist()[0] == pytest.approx([2.9 * LOG2 + 0.5, -1.1 * LOG2])


def test_entropy_weight_may_be_scheduled() -> None:
    loss = ActorCriticLoss(entropy_regularization=LinearScheduler("percent", [(0.0, 1.0), (1.0, 0.0)]))
    start, half = (loss(info(), Progress(fraction=fraction)).loss for fraction in (0.0, 0.5))
    assert (half - start).tolist()[0] == pytest.approx([0.5 * LOG2, 0.5 * LOG2])


def test_advantages_are_normalized_over_the_steps_that_count_and_clipped() -> None:
    given = info(advantage=torch.tensor([[1.0, 3.0, 50.0]]), valid=torch.tensor([[1.0, 1.0, 0.0]]))
    normalized = ActorCriticLoss(normalize_advantages=True).shape_advantages(given, [3])
    assert normalized.tolist()[0] == pytest.approx([-1, 1, 0])
    assert ActorCriticLoss(advantage_clip=2.0).shape_advantages(given, [3]).tolist() == [[1, 2, 2]]


@pytest.mark.parametrize("sizes", [[3, 3], [2, 4], [6], [1, 2, 3]])
def test_mini_batches_side_by_side_are_normalized_one_by_one(sizes: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    advantage = torch.randn(2, 6, generator=generator)
    valid = (torch.rand(2, 6, generator=generator) < 0.7).float()
    together = ActorCriticLoss(normalize_advantages=True).shape_advantages(
        info(advantage=advantage, valid=valid), sizes
    )
    pieces = zip(advantage.split(sizes, 1), valid.split(sizes, 1), strict=True)  # type: ignore[no-untyped-call]
    expected = torch.cat([normalize_advantages(*piece) for piece in pieces], 1)
    assert torch.allclose(together, expected, atol=1e-6)
    assert together.abs().sum() > 0


# Three actions; gamma 0.5, lambda 0.5, so discount * lambda is 0.25.
STEPS = time_step([0.0, 1.0, 2.0, 4.0], [1.0, 1.0, 1.0, 1.0], [1, 1, 1, 1])
VALUES = torch.tensor([[2.0], [4.0], [8.0], [16.0]])


@pytest.mark.parametrize(
    ("options", "advantage", "target"),
    [
        # deltas 1 + 2 - 2 = 1, 2 + 4 - 4 = 2, 4 + 8 - 8 = 4; advantages 1 + 0.25 * 3, 2 + 0.25 * 4, 4
        ({}, [1.75, 3.0, 4.0], [3.75, 7.0, 12.0]),
        # returns 4 + 8 = 12, 2 + 6 = 8, 1 + 4 = 5
        ({"use_td_lambda_return": False}, [1.75, 3.0, 4.0], [5.0, 8.0, 12.0]),
        ({"use_gae": False}, [3.0, 4.0, 4.0], [3.75, 7.0, 12.0]),
        ({"use_gae": False, "use_td_lambda_return": False}, [3.0, 4.0, 4.0], [5.0, 8.0, 12.0]),
    ],
)
def test_advantages_and_targets_by_hand(options: dict[str, bool], advantage: list[float], target: list[float]) -> None:
    loss = ActorCriticLoss(gamma=0.5, td_lambda=0.5, **options)  # type: ignore[arg-type]
    found_advantage, found_target = loss.estimate(VALUES, STEPS)
    assert found_advantage.flatten().tolist() == advantage
    assert found_target.flatten().tolist() == target


@pytest.mark.parametrize(("discount", "target"), [(0.0, 2.0), (1.0, 2.0 + 0.5 * 8.0)])
def test_a_time_limit_bootstraps_and_a_real_end_does_not(discount: float, target: float) -> None:
    steps = time_step([0.0, 1.0, 2.0, 0.0], [1.0, 1.0, discount, 1.0], [1, 1, StepType.LAST, StepType.FIRST])
    advantage, targets = ActorCriticLoss(gamma=0.5, td_lambda=1.0).estimate(VALUES, steps)
    assert targets[1].item() == target
    assert advantage[2].item() == 0  # the action at LAST is ignored


def test_vector_rewards_have_a_target_each_and_one_advantage() -> None:
    steps = time_step([0.0, 1.0], [1.0, 1.0], [1, 1])
    steps = TimeStep(**{**vars(steps), "reward": torch.tensor([[[0.0, 0.0]], [[1.0, 10.0]]])})
    values = torch.zeros(2, 1, 2)
    advantage, target = ActorCriticLoss().estimate(values, steps)
    assert target.tolist() == [[[1.0, 10.0]]]
    assert advantage.tolist() == [[11.0]]
    weighted, _ = ActorCriticLoss(reward_weights=(2.0, 0.5)).estimate(values, steps)
    assert weighted.tolist() == [[7.0]]
    given = info(value=torch.zeros(1, 2, 2), target=torch.tensor([[[1.0, 2.0], [0.0, 3.0]]]))
    assert ActorCriticLoss()(given, Progress()).extra["value_loss"].tolist() == [[5.0, 9.0]]

"""The loss of PPO, by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from alfish.algorithms.actor_critic_loss import ActorCriticInfo
from alfish.algorithms.ppo_loss import PPOLoss
from alfish.networks.distributions import Categorical
from alfish.optimizers.schedulers import LinearScheduler
from alfish.progress import Progress
from alfish.types import replace

# The policy takes each action with probability 1/2; it took them with 1/4, 1/3, 1/2: ratios 2, 1.5, 1.
INFO = ActorCriticInfo(
    action=torch.tensor([[0, 0, 1]]),
    action_distribution=Categorical(torch.zeros(1, 3, 2)),
    value=torch.tensor([[1.0, 2.0, 3.0]]),
    advantage=torch.tensor([[1.0, -1.0, 5.0]]),
    target=torch.tensor([[2.0, 2.0, 2.0]]),
    valid=torch.tensor([[1.0, 1.0, 0.0]]),
    old_log_prob=torch.tensor([[log(0.25), log(1 / 3), log(0.5)]]),
    old_value=torch.tensor([[0.5, 2.0, 3.0]]),
)


def test_the_ratio_is_clipped_where_that_is_worse() -> None:
    loss = PPOLoss(importance_ratio_clipping=0.2, normalize_advantages=False)(INFO, Progress())
    # 2 is clipped to 1.2 for a good action; 1.5 is kept for a bad one
    assert loss.extra["policy_loss"].tolist()[0] == pytest.approx([-1.2, 1.5, -5.0])


def test_clipping_may_be_scheduled() -> None:
    scheduler = LinearScheduler("percent", [(0.0, 0.2), (1.0, 0.6)])
    loss = PPOLoss(importance_ratio_clipping=scheduler, normalize_advantages=False)(INFO, Progress(fraction=0.5))
    assert loss.extra["policy_loss"][0, 0].item() == pytest.approx(-1.4)


def test_value_clipping_takes_the_larger_error() -> None:
    plain = PPOLoss()(INFO, Progress()).extra["value_loss"]
    clipped = PPOLoss(value_clipping=0.2)(INFO, Progress()).extra["value_loss"]
    assert plain.tolist()[0] == pytest.approx([1.0, 0.0, 1.0])
    assert clipped.tolist()[0] == pytest.approx([1.3**2, 0.0, 1.0])


def test_kl_and_clip_fraction_leave_out_what_does_not_count() -> None:
    extra = PPOLoss(importance_ratio_clipping=0.6)(INFO, Progress()).extra
    kl = ((2 - 1 - log(2)) + (1.5 - 1 - log(1.5))) / 2
    assert extra["approximate_kl"].item() == pytest.approx(kl)
    assert extra["clip_fraction"].item() == 0.5


def test_without_summaries_the_kl_is_computed_only_where_it_ends_the_updates() -> None:
    told, silent = (PPOLoss()(INFO, Progress(), diagnose) for diagnose in (True, False))
    assert set(told.extra) - set(silent.extra) == {"entropy", "approximate_kl", "clip_fraction"}
    assert torch.equal(told.loss, silent.loss)
    limited = PPOLoss(target_kl=0.1)(INFO, Progress(), diagnose=False)
    assert torch.equal(limited.extra["approximate_kl"], told.extra["approximate_kl"])


def test_options_reach_the_shared_part() -> None:
    loss = PPOLoss(td_loss_weight=2.0, entropy_regularization=0.5, normalize_advantages=False, advantage_clip=0.5)
    parts = loss(replace(INFO, advantage=loss.shape_advantages(INFO, [INFO.advantage.shape[1]])), Progress())
    expected = parts.extra["policy_loss"] + 2 * parts.extra["value_loss"] - 0.5 * parts.extra["entropy"]
    assert torch.allclose(parts.loss, expected)
    assert parts.extra["policy_loss"][0, 0].item() == pytest.approx(-0.6)

"""TD3 is DDPG with three changes, each of which can be seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.algorithms.ddpg import DdpgState
from alfish.algorithms.td3 import Td3Algorithm
from tests.algorithms.off_policy_runs import final_reward, random_batch, sequence, start_replay
from tests.algorithms.test_ddpg import CONTINUOUS, LEARNING, NETWORKS, optimizers


def start(**arguments: Any) -> Any:
    return start_replay(Td3Algorithm, env_kwargs=CONTINUOUS, **{**NETWORKS, **arguments})


@pytest.mark.parametrize("prioritized", [False, True])
def test_it_solves_the_policy_unittest(prioritized: bool) -> None:
    algorithm = start(options={"priority_replay": prioritized}, **LEARNING, **optimizers())
    for _ in range(500):
        algorithm.train_iter()
    assert final_reward(algorithm).item() == pytest.approx(1.0, abs=0.2)


def test_actor_and_targets_move_with_every_third_update_of_the_critics() -> None:
    algorithm = start(actor_update_period=3)
    watched = {
        "critics": algorithm.critics.online,
        "actor": algorithm.actor_network,
        "target critics": algorithm.critics.target,
        "target actor": algorithm.target_actor_network,
    }
    moved = dict.fromkeys(watched, "")
    for _ in range(7):
        before = {name: [p.clone() for p in net.parameters()] for name, net in watched.items()}
        algorithm.train_iter()
        for name, net in watched.items():
            changed = any(not torch.equal(*pair) for pair in zip(before[name], net.parameters(), strict=True))
            moved[name] += "x" if changed else "-"
    delayed = "--x--x-"
    assert moved == {"critics": "xxxxxxx", "actor": delayed, "target critics": delayed, "target actor": delayed}


def test_the_actor_loss_is_left_out_in_between() -> None:
    algorithm = start(actor_update_period=2)
    parts = []
    for _ in range(4):
        parts.append(sorted(algorithm.compute_loss(random_batch(algorithm)).extra))
        algorithm.after_update()
    assert parts == [["critic"], ["actor", "critic"]] * 2


def test_the_actor_climbs_the_first_critic() -> None:
    algorithm = start(actor_update_period=1)
    batch = random_batch(algorithm)
    observation = batch.time_step.observation[:1]
    last_bias = list(algorithm.critics.online.parameters())[-1]
    with torch.no_grad():
        last_bias[1] -= 100.0  # the second one is the lowest
    values = algorithm.critics.online((observation, algorithm.actor_network(observation)[0]))[0]
    assert (values[1] < values[0]).all()
    torch.testing.assert_close(algorithm.compute_loss(batch).extra["actor"], -values[0])


def test_target_of_one_transition_by_hand() -> None:
    algorithm = start(target_policy_noise=0.0)
    before, after = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    action = torch.tensor([[0.3]])
    batch = sequence(torch.stack([before, after]), action.unsqueeze(0), [[0.0], [2.0]])
    target = 2.0 + 0.99 * algorithm.critics.target((after, algorithm.target_actor_network(after)[0]))[0].min()
    expected = (algorithm.critics.online((before, action))[0] - target).square().sum()
    assert algorithm.compute_loss(batch).extra["critic"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_noise_on_the_target_policy_is_clipped_and_within_the_bounds() -> None:
    algorithm = start(target_policy_noise=1.0, target_policy_noise_clip=0.4)
    seen = algorithm.seen_in(random_batch(algorithm, batch=1000).time_step)
    clean, _ = algorithm.target_actor_network(seen.observation)
    noise = algorithm._target_action(seen, DdpgState()) - clean
    assert noise.abs().max().item() == pytest.approx(0.4 * 0.5, abs=1e-5)  # half of the range 0 .. 1
    assert 0.05 < noise.std().item() < 0.2
    extreme = start(target_policy_noise=1.0, target_policy_noise_clip=9.0)
    action = extreme._target_action(seen, DdpgState())
    assert action.min().item() == 0.0
    assert action.max().item() == 1.0

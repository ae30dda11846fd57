"""SAC solves environments whose optimum is known, with every kind of action, and its losses are those on paper."""

from __future__ import annotations

from functools import partial
from math import log
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.sac import SacAlgorithm, SacState
from alfish.algorithms.td_loss import RetraceTDLoss, TDLoss
from alfish.errors import ConfigError
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.networks.projection import StableNormalProjectionNetwork
from alfish.networks.q import QNetwork, QRnnNetwork
from alfish.optimizers.adam import Adam
from alfish.types import replace
from tests.algorithms.off_policy_runs import final_reward, random_batch, sequence, start_replay

ACTOR = partial(
    ActorDistributionNetwork, fc_layer_params=(16, 16), continuous_projection_net_ctor=StableNormalProjectionNetwork
)
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(16, 16))
Q = partial(QNetwork, fc_layer_params=(16, 16))
NETWORKS: dict[str, dict[str, Any]] = {
    "continuous": {"actor_network_ctor": ACTOR, "critic_network_ctor": CRITIC},
    "discrete": {"q_network_ctor": Q},
    "mixed": {"actor_network_ctor": ACTOR, "q_network_ctor": Q},
}
RNN_ACTOR = partial(
    ActorDistributionRnnNetwork, lstm_hidden_size=8, continuous_projection_net_ctor=StableNormalProjectionNetwork
)
RECURRENT: dict[str, dict[str, Any]] = {
    "continuous": {
        "actor_network_ctor": RNN_ACTOR,
        "critic_network_ctor": partial(CriticRnnNetwork, lstm_hidden_size=8),
    },
    "discrete": {"q_network_ctor": partial(QRnnNetwork, lstm_hidden_size=8)},
    "mixed": {"actor_network_ctor": RNN_ACTOR, "q_network_ctor": partial(QRnnNetwork, lstm_hidden_size=8)},
}
KINDS = ["continuous", "discrete", "mixed"]


def start(kind: str, env_kwargs: dict[str, Any] | None = None, **arguments: Any) -> Any:
    mixed = kind == "mixed"
    return start_replay(
        SacAlgorithm,
        env_name="alfish/MixedPolicyUnittest-v0" if mixed else "alfish/PolicyUnittest-v0",
        env_kwargs={**({} if mixed else {"action_type": kind}), **(env_kwargs or {})},
        **{**NETWORKS[kind], **arguments},
    )


@pytest.mark.parametrize(
    ("kind", "prioritized"), [("continuous", False), ("discrete", False), ("mixed", False), ("continuous", True)]
)
def test_it_solves_the_policy_unittest(kind: str, prioritized: bool) -> None:
    options = {"epsilon_greedy": 0.1, "priority_replay": prioritized}
    algorithm = start(kind, num_environments=4, target_update_tau=0.05, options=options)
    for _ in range(400):
        algorithm.train_iter()
    assert final_reward(algorithm, steps=100).item() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_vector_rewards(kind: str) -> None:
    algorithm = start(kind, {"reward_dim": 3}, target_update_tau=0.05, initial_log_alpha=-2.0)
    for _ in range(300):
        algorithm.train_iter()
    assert final_reward(algorithm).tolist() == pytest.approx([1.0] * 3, abs=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_memory(kind: str) -> None:
    algorithm = start(
        kind,
        num_environments=16,
        target_update_tau=0.05,
        initial_log_alpha=-2.0,
        options={"mini_batch_length": 4, "use_rollout_state": True},
        **RECURRENT[kind],
    )
    for _ in range(150):
        algorithm.train_iter()
    assert final_reward(algorithm).item() == pytest.approx(1.0, abs=0.3)


def test_discrete_memory_solves_what_needs_memory() -> None:
    algorithm = start_replay(
        SacAlgorithm,
        env_name="alfish/RNNPolicyUnittest-v0",
        env_kwargs={"gap": 3},
        num_environments=32,
        target_update_tau=0.05,
        initial_log_alpha=-3.0,
        options={"mini_batch_length": 6, "mini_batch_size": 32},
        **RECURRENT["discrete"],
    )
    for _ in range(350):
        algorithm.train_iter()
    assert final_reward(algorithm).item() == pytest.approx(2 / 5, abs=0.05)  # 2 of the 5 steps are rewarded


def test_continuous_losses_of_one_transition_by_hand() -> None:
    algorithm = start(
        "continuous", critic_loss_ctor=partial(TDLoss, gamma=0.9), initial_log_alpha=log(0.3), target_entropy=-0.7
    )
    before, after, action = torch.tensor([[[0.0]]]), torch.tensor([[[1.0]]]), torch.tensor([[[0.3]]])
    batch = sequence(torch.cat([before, after]), action, [[0.0], [2.0]])
    drawn = algorithm.generator.get_state()
    loss = algorithm.compute_loss(batch)
    algorithm.generator.set_state(drawn)
    next_action, next_log_prob = algorithm.actor_network(after)[0].rsample_and_log_prob(algorithm.generator)
    new_action, log_prob = algorithm.actor_network(before)[0].rsample_and_log_prob(algorithm.generator)
    next_value = algorithm.critics.target((after, next_action))[0].min() - 0.3 * next_log_prob
    target = 2.0 + 0.9 * next_value
    critic = (algorithm.critics.online((before, action))[0] - target).square().sum().item()
    actor = (0.3 * log_prob - algorithm.critics.online((before, new_action))[0].min()).item()
    alpha = (log(0.3) * (-log_prob + 0.7)).item()
    assert loss.extra["critic"].item() == pytest.approx(critic, rel=1e-4)
    assert loss.extra["actor"].item() == pytest.approx(actor, rel=1e-4)
    assert loss.extra["alpha"].item() == pytest.approx(alpha, rel=1e-4)
    assert loss.loss.item() == pytest.approx(critic + actor + alpha, rel=1e-4)
    assert loss.priority.item() == pytest.approx(critic**0.5, rel=1e-4)


@pytest.mark.parametrize(("discount", "bootstraps"), [(1.0, True), (0.0, False)])
def test_discrete_losses_of_one_transition_by_hand(discount: float, bootstraps: bool) -> None:
    algorithm = start("discrete", critic_loss_ctor=partial(TDLoss, gamma=0.9), initial_log_alpha=log(0.3))
    before, after = torch.tensor([[[0.0]]]), torch.tensor([[[1.0]]])
    batch = sequence(torch.cat([before, after]), torch.tensor([[1]]), [[0.0], [2.0]], [[1.0], [discount]])
    loss = algorithm.compute_loss(batch)
    policy = (algorithm.critics.online(after)[0].amin(0) / 0.3).softmax(-1)
    soft_value = (policy * (algorithm.critics.target(after)[0].amin(0) - 0.3 * policy.log())).sum()
    target = 2.0 + 0.9 * soft_value * bootstraps
    critic = (algorithm.critics.online(before)[0][..., 1] - target).square().sum().item()
    now = (algorithm.critics.online(before)[0].amin(0) / 0.3).softmax(-1)
    entropy = -(now * now.log()).sum().item()
    expected_entropy = -(0.9 * log(0.9) + 0.1 * log(0.1))
    assert loss.extra["critic"].item() == pytest.approx(critic, rel=1e-4)
    assert loss.extra["alpha_discrete"].item() == pytest.approx(log(0.3) * (entropy - expected_entropy), rel=1e-4)
    assert set(loss.extra) == {"critic", "alpha_discrete"}


def test_mixed_actor_loss_is_the_mean_over_the_choices() -> None:
    algorithm = start("mixed", initial_log_alpha=log(0.3))
    batch = random_batch(algorithm, batch=5)
    drawn = algorithm.generator.get_state()
    loss = algorithm.compute_loss(batch)
    algorithm.generator.set_state(drawn)
    now, later = batch.time_step.observation[:1], batch.time_step.observation[1:]
    algorithm.actor_network(later)[0].rsample_and_log_prob(algorithm.generator)
    action, log_prob = algorithm.actor_network(now)[0].rsample_and_log_prob(algorithm.generator)
    values = algorithm.critics.online((now, action))[0].amin(0)
    policy = (values / 0.3).softmax(-1)
    torch.testing.assert_close(loss.extra["actor"], 0.3 * log_prob - (policy * values).sum(-1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rewards", [1, 2])
def test_each_loss_moves_its_own_parameters(kind: str, rewards: int) -> None:
    algorithm = start(kind, {"reward_dim": rewards})
    batch = random_batch(algorithm, length=3)
    owners = {
        "critic": algorithm.critics.online,
        "actor": algorithm.actor_network,
        "alpha": algorithm.temperature,
        "alpha_discrete": algorithm.choice_temperature,
    }
    losses = algorithm.compute_loss(batch).extra
    assert set(losses) == {name for name, module in owners.items() if module is not None}
    for name, loss in losses.items():
        assert loss.shape == (3, 6)
        algorithm.zero_grad()
        loss.sum().backward(retain_graph=True)
        moved = {key for key, value in algorithm.named_parameters() if value.grad is not None}
        own = {id(parameter) for parameter in owners[name].parameters()}
        assert moved == {key for key, value in algorithm.named_parameters() if id(value) in own}


@pytest.mark.parametrize(("target", "direction"), [(-9.0, -1), (0.69, 1)])
def test_alpha_moves_towards_the_entropy_target(target: float, direction: int) -> None:
    for kind in ("continuous", "discrete"):
        algorithm = start(kind, target_entropy=target, initial_log_alpha=-3.0)
        temperature = algorithm.temperature or algorithm.choice_temperature
        before = temperature.alpha().item()
        for _ in range(20):
            algorithm.train_iter()
        assert (temperature.alpha().item() - before) * direction > 0


def test_a_fixed_alpha_stays() -> None:
    algorithm = start("mixed", learn_alpha=False, initial_log_alpha=log(0.2))
    for _ in range(5):
        algorithm.train_iter()
    assert algorithm.temperature.alpha().item() == pytest.approx(0.2)
    assert algorithm.choice_temperature.alpha().item() == pytest.approx(0.2)


def test_mode_in_evaluation_and_samples_while_exploring() -> None:
    algorithm = start("continuous", num_environments=50)
    time_step = algorithm.time_step
    mode = algorithm.actor_network(time_step.observation)[0].mode()
    assert torch.equal(algorithm.predict_step(time_step, ()).output, mode)
    assert not torch.equal(algorithm.rollout_step(time_step, ()).output, mode)
    algorithm.epsilon_greedy = 0.5
    sampled = (algorithm.predict_step(time_step, ()).output != mode).float().mean().item()
    assert 0.2 < sampled < 0.8
    algorithm.epsilon_greedy = 1.0
    assert (algorithm.predict_step(time_step, ()).output != mode).all()


def test_the_discrete_policy_is_the_softmax_of_the_lowest_values() -> None:
    algorithm = start("discrete", num_environments=4000, initial_log_alpha=log(0.5))
    time_step = algorithm.time_step
    policy = (algorithm.critics.online(time_step.observation)[0].amin(0) / 0.5).softmax(-1)
    drawn = algorithm.rollout_step(time_step, ()).output
    assert drawn.float().mean().item() == pytest.approx(policy[:, 1].mean().item(), abs=0.03)
    assert torch.equal(algorithm.predict_step(time_step, ()).output, policy.argmax(-1))


def test_n_step_sequences() -> None:
    algorithm = start("continuous", critic_loss_ctor=partial(TDLoss, num_steps=3))
    assert algorithm.sequence_length == 4
    loss = algorithm.compute_loss(random_batch(algorithm, length=3))
    assert loss.extra["critic"].shape == (3, 6)
    assert (loss.extra["critic"][1:] == 0).all()
    for _ in range(8):
        algorithm.train_iter()
    assert algorithm.progress.updates > 0


@pytest.mark.parametrize("kind", KINDS)
def test_retrace_with_experience_of_its_own_is_the_lambda_return_around_the_target_critics(kind: str) -> None:
    """While the policy is still the one that acted, no return is cut: R[t] = r + gamma (V + lambda (R - Q))[t + 1]."""
    loss = partial(RetraceTDLoss, gamma=0.9, retrace_lambda=0.8)
    algorithm = start(kind, critic_loss_ctor=loss, options={"mini_batch_length": 4}, num_environments=3)
    experience = algorithm.unroll(4)
    assert experience.rollout_info.shape == (4, 3)
    drawn = algorithm.generator.get_state()
    critic = algorithm.compute_loss(experience).extra["critic"]
    algorithm.generator.set_state(drawn)
    steps, (discrete, continuous) = experience.time_step, algorithm.parts.split(experience.action)
    taken = algorithm.seen_in(steps, slice(None, -1))
    with torch.no_grad():
        values = algorithm._next_value(experience, SacState())
        target_values = algorithm._values(algorithm.critics.target, taken, continuous, ())
        judged = algorithm._of_choice(target_values, discrete).amin(0)
        online = algorithm._of_choice(algorithm._values(algorithm.critics.online, taken, continuous, ()), discrete)
        discount, later = steps.discount[1:] * 0.9, torch.zeros(3)
        for t in reversed(range(4)):
            is_end = steps.step_type[t] == 2  # the action is ignored, and no return passes through
            target = steps.reward[t + 1] + discount[t] * (values[t] + 0.8 * later)
            later = torch.where(is_end, 0.0, target - judged[t])
            expected = (online[:, t] - target).square().sum(0)
            torch.testing.assert_close(critic[t][~is_end], expected[~is_end], rtol=1e-4, atol=1e-5)


def test_retrace_is_cut_where_the_policy_would_not_act_so() -> None:
    loss = partial(RetraceTDLoss, gamma=0.9, retrace_lambda=1.0)
    algorithm = start("discrete", critic_loss_ctor=loss, options={"mini_batch_length": 3})
    batch = replace(random_batch(algorithm, length=2), rollout_info=torch.full((2, 6), 50.0))
    cut = algorithm.compute_loss(batch).extra["critic"]
    one_step = start("discrete", critic_loss_ctor=partial(TDLoss, gamma=0.9))
    one_step.load_state_dict(algorithm.state_dict())
    valid = batch.time_step.step_type[:-1] != 2
    torch.testing.assert_close(cut[valid], one_step.compute_loss(batch).extra["critic"][valid])


@pytest.mark.parametrize("kind", KINDS)
def test_it_solves_the_policy_unittest_with_retrace(kind: str) -> None:
    options = {"mini_batch_length": 4, "mini_batch_size": 32}
    algorithm = start(kind, target_update_tau=0.05, critic_loss_ctor=RetraceTDLoss, options=options)
    for _ in range(400):
        algorithm.train_iter()
    assert final_reward(algorithm, steps=100).item() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_memory_is_that_of_the_networks_along_the_sequence(kind: str) -> None:
    """Values from stored states equal the tail of those of the whole sequence, for unchanged networks."""
    algorithm = start(kind, options={"use_rollout_state": True, "mini_batch_length": 4}, **RECURRENT[kind])
    experience = algorithm.unroll(5)
    continuous = algorithm.parts.split(experience.action)[1]
    taken = nest.index(experience.time_step, slice(None, -1))
    for critics, name in ((algorithm.critics.online, "critics"), (algorithm.critics.target, "target_critics")):
        stored = getattr(experience.state, name)
        with torch.no_grad():
            full = algorithm._values(critics, algorithm.seen_in(taken), continuous, nest.index(stored, 0))
            later, later_action = nest.index((taken, continuous), slice(3, None))
            tail = algorithm._values(critics, algorithm.seen_in(later), later_action, nest.index(stored, 3))
        torch.testing.assert_close(tail, full[:, 3:])


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_acting_does_not_need_is_not_stored(kind: str) -> None:
    algorithm = start(kind, options={"mini_batch_length": 4}, **RECURRENT[kind])
    state = algorithm.rollout_state_spec
    assert bool(nest.leaves(state.actor)) == (kind != "discrete")
    assert bool(nest.leaves(state.critics)) == (kind != "continuous")
    assert state.target_critics == ()


def test_a_sequence_that_is_longer_has_the_losses_of_its_transitions() -> None:
    """Without memory and with one-step targets, rows do not see each other."""
    algorithm = start("discrete")
    batch = random_batch(algorithm, length=4)
    whole = algorithm.compute_loss(batch).extra["critic"]
    for t in range(4):
        part = replace(batch, time_step=nest.index(batch.time_step, slice(t, t + 2)), action=batch.action[t : t + 1])
        valid = batch.time_step.step_type[t] != 2
        torch.testing.assert_close(algorithm.compute_loss(part).extra["critic"][0][valid], whole[t][valid])


def test_optimizers_of_their_own() -> None:
    actor, critic, alpha = Adam(lr=0.1), Adam(lr=0.2), Adam(lr=0.3)
    algorithm = start("mixed", actor_optimizer=actor, critic_optimizer=critic, alpha_optimizer=alpha)
    algorithm.train_iter()
    assert all(name.startswith("actor_network.") for name in actor.named_parameters)
    assert all(name.startswith("critics.online.") for name in critic.named_parameters)
    assert set(alpha.named_parameters) == {"temperature.log_alpha", "choice_temperature.log_alpha"}


def test_missing_networks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"SacAlgorithm.critic_network_ctor = @CriticNetwork"):
        start("continuous", critic_network_ctor=None)


def test_a_cue_before_the_sequence_needs_the_stored_state() -> None:
    """The cue is shown at step 0 and pays at steps 3 and 4; sequences have 3 time steps."""

    def reward(use_rollout_state: bool) -> float:
        algorithm = start_replay(
            SacAlgorithm,
            env_name="alfish/RNNPolicyUnittest-v0",
            env_kwargs={"gap": 3},
            num_environments=32,
            target_update_tau=0.05,
            initial_log_alpha=-3.0,
            options={"mini_batch_length": 3, "mini_batch_size": 64, "use_rollout_state": use_rollout_state},
            **RECURRENT["discrete"],
        )
        for _ in range(400):
            algorithm.train_iter()
        return final_reward(algorithm).item()

    assert reward(use_rollout_state=True) == pytest.approx(2 / 5, abs=0.05)
    assert reward(use_rollout_state=False) < 0.3


def test_options_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(ConfigError, match="alpha_optimizer has nothing to optimize"):
        start("continuous", learn_alpha=False, alpha_optimizer=Adam(lr=0.1), optimizer=Adam(lr=0.1))
    options = {"random_initial_collect": True, "initial_collect_steps": 10}
    with pytest.raises(
        ConfigError, match=r"random actions have none\. Set TrainerConfig\.random_initial_collect = False"
    ):
        start("continuous", critic_loss_ctor=RetraceTDLoss, options=options)


def test_debug_summaries_tell_alpha() -> None:
    algorithm = start("mixed", options={"debug_summaries": True}, learn_alpha=False, initial_log_alpha=log(0.25))
    algorithm.summary.enabled = True
    algorithm.train_iter()
    scalars = algorithm.summary.write()
    assert scalars["Debug/alpha"] == pytest.approx(0.25)
    assert scalars["Debug/alpha_discrete"] == pytest.approx(0.25)
    assert "Debug/critic/value" in scalars

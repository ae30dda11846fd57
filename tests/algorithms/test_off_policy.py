"""The off-policy loop: what is stored, what is drawn, and when training begins."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.errors import ConfigError
from alfish.optimizers.adam import Adam
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep, replace
from tests.algorithms.runs import started


class OneStepQ(RLAlgorithm):
    """Q-learning for episodes of one step: Q learns the reward. Remembers the batches it was given."""

    on_policy = False

    def __init__(self, env: Any, config: TrainerConfig) -> None:
        super().__init__(env.observation_spec, env.action_spec, env.reward_spec, config, optimizer=Adam(lr=0.05))
        self.net = nn.Linear(env.observation_spec.shape[0], 2)
        self.batches: list[Experience] = []

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        return AlgStep(torch.randint(2, time_step.reward.shape, generator=self.generator))

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        return AlgStep(self.net(time_step.observation).argmax(-1))

    def compute_loss(self, experience: Experience) -> LossInfo:
        self.batches.append(experience)
        q = self.net(experience.time_step.observation[:-1]).gather(-1, experience.action.unsqueeze(-1)).squeeze(-1)
        return LossInfo(loss=(q - experience.time_step.reward[1:]).square())


def start(env_name: str = "alfish/ActionRewardProbe-v0", num_environments: int = 4, **options: Any) -> Any:
    env = create_environment(env_name, num_parallel_environments=num_environments)
    if "unroll_episodes" not in options:
        options.setdefault("unroll_length", 2)
    config = TrainerConfig(algorithm_ctor=OneStepQ, **options)
    return started(OneStepQ(env, config), env, config)


def test_a_buffer_that_no_memory_holds_is_refused_before_the_first_step() -> None:
    with pytest.raises(ConfigError, match=r"replay_buffer_length = 10000000000000: 4 environments x .* fits"):
        start(replay_buffer_length=10**13)


def test_sampled_updates_each_draw_anew() -> None:
    algorithm = start(
        whole_replay_buffer_training=False, mini_batch_size=64, num_updates_per_train_iter=3, unroll_length=20
    )
    algorithm.train_iter()
    assert algorithm.progress.updates == 3
    drawn = [batch.batch_info.positions for batch in algorithm.batches]
    assert all(batch.time_step.step_type.shape == (2, 64) for batch in algorithm.batches)
    assert not torch.equal(drawn[0], drawn[1])


def test_what_an_algorithm_makes_of_its_batches_is_what_it_learns_from() -> None:
    class HalvedReward(OneStepQ):
        def preprocess_experience(self, experience: Experience) -> Experience:
            assert not torch.is_grad_enabled()
            time_step = experience.time_step
            return replace(experience, time_step=replace(time_step, reward=time_step.reward / 2))

    options: dict[str, Any] = {"whole_replay_buffer_training": False, "mini_batch_size": 16, "unroll_length": 20}
    env = create_environment("alfish/ActionRewardProbe-v0", num_parallel_environments=4)
    config = TrainerConfig(algorithm_ctor=HalvedReward, **options)
    halved = started(HalvedReward(env, config), env, config)
    plain = start(**options)
    for algorithm in (halved, plain):
        algorithm.train_iter()
    assert plain.batches[0].time_step.reward.abs().max() > 0
    assert torch.equal(halved.batches[0].time_step.reward, plain.batches[0].time_step.reward / 2)


def test_training_begins_after_the_initial_collection_over_all_environments() -> None:
    # Episodes of one step: of two steps per iteration and environment one only resets, so 4 steps per iteration.
    algorithm = start(whole_replay_buffer_training=False, mini_batch_size=8, initial_collect_steps=12)
    updates = []
    for _ in range(4):
        algorithm.train_iter()
        updates.append(algorithm.progress.updates)
    assert updates == [0, 0, 4, 8]


@pytest.mark.parametrize(("clear", "actions"), [(True, [8, 8, 8]), (False, [8, 16, 24])])
def test_whole_buffer_passes_use_every_stored_action_once(clear: bool, actions: list[int]) -> None:
    algorithm = start(num_updates_per_train_iter=1, mini_batch_size="whole", clear_replay_buffer=clear)
    for _ in range(3):
        algorithm.train_iter()
    assert [batch.action.numel() for batch in algorithm.batches] == actions
    last = algorithm.batches[-1].batch_info
    assert len(set(zip(last.env_ids.tolist(), last.positions.tolist(), strict=True))) == actions[-1]


def test_sequences_longer_than_what_is_stored_wait() -> None:
    algorithm = start(whole_replay_buffer_training=False, mini_batch_length=6, mini_batch_size=4)
    for _ in range(3):
        algorithm.train_iter()
    assert algorithm.progress.updates == 4  # 2, 4, 6 actions stored: six time steps exist in the third iteration


def test_learns_the_known_optimum_also_without_interaction() -> None:
    algorithm = start(
        whole_replay_buffer_training=False, mini_batch_size=32, num_updates_per_train_iter=10, unroll_length=20
    )
    algorithm.train_iter()
    env_steps = algorithm.progress.env_steps
    for _ in range(30):
        algorithm.train_iter(interact=False)
    assert algorithm.progress.env_steps == env_steps
    time_step = algorithm._env.reset(seed=1)
    reward = algorithm._env.step(algorithm.predict_step(time_step, ()).output).reward
    assert reward.tolist() == [1.0] * 4


def test_ignored_actions_have_no_weight() -> None:
    """Half of the rows are LAST; were they trained on, Q of every action would be pulled to the reward 0 of FIRST."""
    algorithm = start(
        whole_replay_buffer_training=False, mini_batch_size=64, num_updates_per_train_iter=200, unroll_length=50
    )
    algorithm.train_iter()
    q = algorithm.net(algorithm.time_step.observation[:1]).flatten().tolist()
    assert max(q) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unroll_with_grad": True}, "learns from replay, which keeps no graph"),
        ({"initial_collect_steps": 10_000, "replay_buffer_length": 100}, "more than the buffer can hold"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start(**options)


def test_updates_per_env_step_are_exact_over_a_thousand_iterations() -> None:
    algorithm = start(
        env_name="alfish/ValueUnittest-v0",
        whole_replay_buffer_training=False,
        mini_batch_size=2,
        num_updates_per_env_step=0.125,
        unroll_length=1,
    )
    algorithm._env.step = _endless(algorithm)
    for _ in range(1000):
        algorithm.train_iter()
    assert algorithm.progress.env_steps == 4000
    assert algorithm.progress.updates == 500


def _endless(algorithm: Any) -> Any:
    """A step whose result is never FIRST or LAST, so that all steps count."""
    template = algorithm.time_step
    step_type = torch.ones_like(template.step_type)
    return lambda action: TimeStep(**{**vars(template), "step_type": step_type})


def test_steps_before_the_first_update_earn_no_updates() -> None:
    algorithm = start(
        whole_replay_buffer_training=False, mini_batch_size=2, num_updates_per_env_step=1, initial_collect_steps=12
    )
    updates = []
    for _ in range(4):
        algorithm.train_iter()
        updates.append(algorithm.progress.updates)
    assert updates == [0, 0, 4, 8]


def assert_no_episode_is_glued_to_the_next(algorithm: Any) -> None:
    stored = algorithm.replay.gather_all().time_step
    assert stored.is_last()[:-1][stored.is_first()[1:]].all()
    assert stored.is_first()[1:].any()


def test_whole_episodes_are_stored_with_their_ends() -> None:
    algorithm = start("CartPole-v1", whole_replay_buffer_training=False, unroll_episodes=6, mini_batch_size=8)
    for _ in range(3):
        algorithm.train_iter()
    assert_no_episode_is_glued_to_the_next(algorithm)
    stored = algorithm.replay.gather_all().time_step
    assert (stored.is_last() & (stored.discount == 0)).sum() >= 18
    assert algorithm.progress.episodes == 18


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("with_replay", "updates"), [(True, 4), (False, 0)])
def test_a_resumed_run_goes_on_from_its_replay_or_collects_again(with_replay: bool, updates: int, exact: bool) -> None:
    options = {"whole_replay_buffer_training": False, "mini_batch_size": 8, "initial_collect_steps": 40}
    before = start("CartPole-v1", unroll_length=15, **options)
    before.train_iter()
    after = start("CartPole-v1", unroll_length=2, **options)
    after._env.exact_resume = exact
    after.progress.load_state_dict(before.progress.state_dict())
    assert after.load_run_state(before.run_state()) == exact
    if with_replay:
        after.load_replay(before.replay.state_dict())
        added = after.replay.num_transitions - before.replay.num_transitions
        assert added == (0 if exact else 4)  # from the broken-off end to FIRST
    stored = after.progress.updates
    after.train_iter()
    assert after.progress.updates - stored == updates
    if with_replay:
        assert_no_episode_is_glued_to_the_next(after)

"""Transformers in a run: what acts, what learns, what is stored, what is evaluated and what is saved."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from alfish import nest
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.frame_stacker import FrameStacker
from alfish.algorithms.transformers.hindsight import HindsightExperienceTransformer, SparseGoalReward
from alfish.algorithms.transformers.normalizers import ObservationNormalizer, RewardNormalizer
from alfish.algorithms.transformers.rewards import RewardScaling
from alfish.environments.create import create_environment
from alfish.errors import ConfigError
from alfish.optimizers.adam import Adam
from alfish.seeding import Seeds
from alfish.specs import TensorSpec
from alfish.training.build import build_algorithm
from alfish.training.evaluator import Evaluator
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep
from tests.algorithms.runs import started
from tests.algorithms.transformers.tape import assert_equal
from tests.training.tiny import bind, make, train


class Witness(RLAlgorithm):
    """Acts at random and remembers what it is shown."""

    on_policy = False

    def __init__(self, observation_spec: Nest, action_spec: Nest, config: TrainerConfig, **_: Any) -> None:
        super().__init__(observation_spec, action_spec, TensorSpec(()), config, optimizer=Adam(lr=0.01))
        self.weight = nn.Parameter(torch.zeros(()))
        self.acted_on: list[TimeStep] = []
        self.predicted_on: list[TimeStep] = []
        self.learned_from: list[Experience] = []

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        self.acted_on.append(time_step)
        return AlgStep(self.action_spec.sample(len(time_step.reward), generator=self.generator))

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        self.predicted_on.append(time_step)
        return AlgStep(self.action_spec.sample(len(time_step.reward), generator=self.generator))

    def compute_loss(self, experience: Experience) -> LossInfo:
        self.learned_from.append(experience)
        return LossInfo(loss=(experience.time_step.reward[1:] * self.weight).square())


def witness(ctors: Any, env_name: str = "CartPole-v1", **options: Any) -> Witness:
    env = create_environment(env_name, num_parallel_environments=3)
    chosen = {"unroll_length": 4, "mini_batch_size": 16, "mini_batch_length": 3, "replay_buffer_length": 20, **options}
    config = TrainerConfig(
        algorithm_ctor=Witness, data_transformer_ctor=ctors, whole_replay_buffer_training=False, **chosen
    )
    algorithm = build_algorithm(config, env, Seeds(0))
    started(algorithm, env, config)
    assert isinstance(algorithm, Witness)
    return algorithm


def test_what_is_learned_from_equals_what_was_acted_on() -> None:
    scaling = partial(RewardScaling, scale=2.0)
    algorithm = witness([FrameStacker, scaling])
    assert algorithm.observation_spec.shape == (16,)
    for _ in range(30):  # six times around the ring
        algorithm.train_iter()
    assert sum(int(step.is_last().sum()) for step in algorithm.acted_on) > 5
    seen = nest.stack(algorithm.acted_on)
    drawn, newest = 0, len(algorithm.acted_on)
    for batch in algorithm.learned_from:
        times = torch.as_tensor(batch.batch_info.positions) + torch.arange(3).unsqueeze(1)
        acted = (times < newest).all(0)  # the newest time step is stored, but not acted on yet
        columns = times[:, acted], torch.as_tensor(batch.batch_info.env_ids)[acted]
        assert_equal(nest.map(lambda leaf, acted=acted: leaf[:, acted], batch.time_step), nest.index(seen, columns))
        drawn += int(acted.sum())
    assert drawn > 1500


def test_replay_stores_one_raw_copy_and_metrics_show_raw_rewards() -> None:
    algorithm = witness([FrameStacker, partial(RewardScaling, scale=100.0)])
    for _ in range(20):
        algorithm.train_iter()
    stored = algorithm.loop.replay.sample(50, 2).time_step
    assert stored.observation.shape == (2, 50, 4)
    assert set(stored.reward.unique().tolist()) <= {0.0, 1.0}
    assert set(algorithm.learned_from[-1].time_step.reward.unique().tolist()) <= {0.0, 100.0}
    assert algorithm.metrics.average_return < 60


def test_statistics_count_every_time_step_once() -> None:
    algorithm = witness([ObservationNormalizer, RewardNormalizer])
    for _ in range(3):
        algorithm.train_iter()
    observations, rewards = algorithm.data_transformer.transformers
    assert observations.moments[0].count == 3 * 3 * 4
    firsts = sum(int(step.is_first().sum()) for step in algorithm.acted_on)
    assert rewards.moments.count == 3 * 3 * 4 - firsts


@pytest.mark.parametrize("unroll_episodes", [None, 4])
def test_on_policy_learning_sees_what_acting_saw(unroll_episodes: int | None) -> None:
    env = create_environment("CartPole-v1", num_parallel_environments=3)
    options: dict[str, Any] = {"unroll_length": 10} if unroll_episodes is None else {"unroll_episodes": unroll_episodes}
    config = TrainerConfig(
        algorithm_ctor=partial(PPOAlgorithm, optimizer=Adam()),
        data_transformer_ctor=[FrameStacker, ObservationNormalizer, partial(RewardScaling, scale=3.0)],
        **options,
    )
    algorithm = build_algorithm(config, env, Seeds(0))
    started(algorithm, env, config)
    shown: list[Any] = []
    trained: list[Experience] = []
    rollout_step, train = algorithm.rollout_step, algorithm.loop.train
    algorithm.rollout_step = lambda step, state: shown.append(step) or rollout_step(step, state)  # type: ignore
    algorithm.loop.train = lambda unrolled: trained.append(unrolled.experience) or train(unrolled)  # type: ignore
    for _ in range(3):
        algorithm.train_iter()
    rows = [nest.index(experience.time_step, t) for experience in trained for t in range(experience.length)]
    for acted, learned in zip(shown, rows, strict=True):
        assert_equal((acted.observation, acted.reward), (learned.observation, learned.reward))
    bootstrap = trained[0].time_step.observation[-1]
    if unroll_episodes is None:
        assert_equal(bootstrap, trained[1].time_step.observation[0])
    assert bootstrap.shape == (3, 16)
    assert algorithm.metrics.average_return == pytest.approx(
        algorithm.metrics.results()["AverageEpisodeLength"]
    )  # CartPole pays 1 per step


def test_evaluation_transforms_and_learns_nothing() -> None:
    algorithm = witness([FrameStacker, ObservationNormalizer])
    for _ in range(5):
        algorithm.train_iter()
    before = {name: value.clone() for name, value in algorithm.state_dict().items()}
    assert "data_transformer.transformers.1.moments.0.mean" in before
    with create_environment("CartPole-v1", num_parallel_environments=2) as env:
        returns, lengths = Evaluator(env, Seeds(1)).evaluate(algorithm, 2)
    assert returns == tuple(map(float, lengths))
    assert_equal(dict(algorithm.state_dict()), before)
    first, second = algorithm.predicted_on[:2]
    assert first.observation.shape == (2, 16)
    mean, scale = (value.float() for value in (stacked_moments(algorithm).mean, stacked_moments(algorithm).inverse_std))
    raw = first.observation / scale + mean
    torch.testing.assert_close(raw.reshape(2, 4, 4), raw[:, -4:].unsqueeze(1).expand(2, 4, 4))
    newer = second.observation / scale + mean
    torch.testing.assert_close(newer[:, :12], raw[:, 4:])


def stacked_moments(algorithm: Witness) -> Any:
    return algorithm.data_transformer.transformers[1].moments[0]


def test_the_run_state_brings_back_the_random_stream_of_hindsight() -> None:
    hindsight = partial(HindsightExperienceTransformer, reward_fn=SparseGoalReward(0.05))
    one, other = (witness([hindsight], "alfish/PointGoal-v0", mini_batch_length=2) for _ in range(2))
    for _ in range(3):
        one.train_iter()
    other.load_run_state(one.run_state())
    draws = [torch.rand(3, generator=each.data_transformer.generator) for each in (one, other)]
    assert torch.equal(*draws)


def test_statistics_come_back_with_the_checkpoint(tmp_path: Path) -> None:
    bind()
    options = {"data_transformer_ctor": [ObservationNormalizer, RewardNormalizer], "num_iterations": 3}
    before = train(tmp_path / "run", **options).algorithm.data_transformer
    resumed = make(tmp_path / "run", **options)
    assert_equal(dict(resumed.algorithm.data_transformer.state_dict()), dict(before.state_dict()))
    assert before.transformers[0].moments[0].count == 4 * (3 * 5 + 1)  # the bootstrap row was seen, too
    resumed.close()


def test_gin_names_the_line_of_a_wrong_order(tmp_path: Path) -> None:
    config = tmp_path / "wrong.gin"
    config.write_text(
        "include 'ppo.gin'\nTrainerConfig.data_transformer_ctor = [@RewardClipping, @FrameStacker]\n"
        "TrainerConfig.verbose = False\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "alfish.train", f"--gin_file={config}", f"--root_dir={tmp_path / 'run'}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "wrong.gin:2: TrainerConfig.data_transformer_ctor" in done.stderr
    assert "TrainerConfig.data_transformer_ctor = [@FrameStacker, @RewardClipping]" in done.stderr


def test_what_cannot_work_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="sequences of 3 time steps are drawn"):
        witness(HindsightExperienceTransformer, "alfish/PointGoal-v0")
    with pytest.raises(ConfigError, match="replay_buffer_length = 5 never holds a sequence of 6 time steps"):
        witness(FrameStacker, replay_buffer_length=5)
    with pytest.raises(ConfigError, match=r"The right order:\n.*\[@FrameStacker, @ObservationNormalizer\]"):
        witness([ObservationNormalizer, FrameStacker])
    env = create_environment("alfish/PointGoal-v0")
    ppo = partial(PPOAlgorithm, optimizer=Adam())
    config = TrainerConfig(algorithm_ctor=ppo, data_transformer_ctor=HindsightExperienceTransformer)
    with pytest.raises(ConfigError, match="an on-policy algorithm has none"):
        started(build_algorithm(config, env, Seeds(0)), env, config)

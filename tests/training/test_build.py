from __future__ import annotations

import gin
import pytest
import torch

from alfish import config as gin_config
from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems
from alfish.environments.create import create_environment
from alfish.errors import ConfigError
from alfish.seeding import Seeds
from alfish.training.build import bound_options, build_algorithm
from tests.training.tiny import bind, make


def build(seed=1, **options):
    config = TrainerConfig(**{"algorithm_ctor": PPOAlgorithm, **options})
    with create_environment() as env:
        return build_algorithm(config, env, Seeds(seed))


def flat(algorithm):
    return torch.nn.utils.parameters_to_vector(algorithm.parameters())


def test_parameters_come_from_the_seed_and_leave_the_global_generator_alone():
    bind()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = flat(build())
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert torch.equal(flat(build()), one)
    assert not torch.equal(flat(build(seed=2)), one)


def test_a_constructor_of_something_else_is_refused():
    bind()
    with pytest.raises(ConfigProblems, match=r"TrainerConfig.algorithm_ctor: made a dict, which is not an RLAlgorithm"):
        build(algorithm_ctor=dict)


@pytest.mark.parametrize("device", ["cuda:77", "toaster"])
def test_a_device_that_is_not_there_is_refused(device):
    bind()
    with pytest.raises(ConfigProblems, match=rf"TrainerConfig.device: '{device}' cannot be used here.*Try 'cpu'"):
        build(device=device)


def test_all_options_without_effect_are_refused_together():
    bind()
    with pytest.raises(ConfigProblems) as caught:
        build(algorithm_ctor=ActorCriticAlgorithm, mini_batch_size=64, num_updates_per_train_iter=2)
    assert sorted(str(problem) for problem in caught.value.problems) == [
        f"TrainerConfig.{option}: has no effect on ActorCriticAlgorithm: it makes one update over each whole unroll. "
        "Remove it"
        for option in ("mini_batch_size", "num_updates_per_train_iter")
    ]


@pytest.mark.parametrize(("independent", "calls"), [(None, 1), (True, 1), (False, 5)])
def test_steps_without_memory_are_trained_as_one_batch_unless_told_otherwise(monkeypatch, independent, calls):
    bind()
    seen, train_step = [], PPOAlgorithm.train_step
    # As a subclass with a step of its own would.
    monkeypatch.setattr(PPOAlgorithm, "train_step", lambda *arguments: seen.append(1) or train_step(*arguments))
    make(num_iterations=1, mini_batch_size="whole", temporally_independent_train_step=independent).train()
    assert len(seen) == calls


def test_steps_with_memory_cannot_be_trained_as_one_batch():
    bind("PPOAlgorithm.actor_network_ctor = @ActorDistributionRnnNetwork")
    with pytest.raises(ConfigError, match="temporally_independent_train_step = True: PPOAlgorithm has memory"):
        build(temporally_independent_train_step=True)


def test_options_that_are_idle_are_told_with_the_reason(caplog):
    bind()
    make(num_eval_episodes=3, num_evals=2, use_rollout_state=True, async_eval=True, replay_buffer_length=9).close()
    assert caplog.messages == [
        "TrainerConfig.num_evals, TrainerConfig.num_eval_episodes: no effect, since evaluate is False",
        "TrainerConfig.use_rollout_state: no effect, since PPOAlgorithm has no memory",
        "TrainerConfig.replay_buffer_length: no effect, since PPOAlgorithm is on-policy and has no replay",
    ]


def test_bound_options_know_the_config_they_were_read_from(tmp_path):
    (tmp_path / "mine.gin").write_text('include "ppo.gin"\n')
    gin_config.load([str(tmp_path / "mine.gin")])
    assert bound_options().conf_file == str(tmp_path / "mine.gin")
    assert bound_options().mini_batch_size == 128
    gin_config.clear()
    bind()
    gin.bind_parameter("TrainerConfig.algorithm_ctor", PPOAlgorithm)
    assert bound_options().conf_file == ""


def test_a_config_that_names_a_config_is_refused():
    gin_config.load(["ppo.gin"], ["TrainerConfig.conf_file=other.gin"])
    with pytest.raises(ConfigProblems, match=r"TrainerConfig.conf_file: is filled in by the commands: --gin_file"):
        bound_options()

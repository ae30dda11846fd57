"""What a run is made of, where it lives, and its seed."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from alfish.algorithms.transformers.sequential import SequentialDataTransformer
from tests.options.running import A2C, CARTPOLE, PPO, SAC, make, refusal, train, weights

NORMALIZER = "TrainerConfig.data_transformer_ctor = @ObservationNormalizer\n"
CLIPPING = "TrainerConfig.data_transformer_ctor = @RewardClipping\n"
BOTH = "TrainerConfig.data_transformer_ctor = [@ObservationNormalizer, @RewardClipping]\n"
WRONG_ORDER = "TrainerConfig.data_transformer_ctor = [@ObservationNormalizer, @FrameStacker]\n"


def test_root_dir() -> None:
    run = train(PPO, "TrainerConfig.root_dir = 'here'\n", root_dir=None)
    assert run.folder == Path("here")
    assert {"checkpoints", "config.gin", "operative.gin", "progress.csv", "run.json", "train"} <= {
        path.name for path in Path("here").iterdir()
    }


def test_root_dir_of_the_command_wins() -> None:
    assert train(PPO, "TrainerConfig.root_dir = 'here'\n", root_dir="there").folder == Path("there")
    assert not Path("here").exists()


def test_root_dir_by_default_has_the_name_of_the_config_and_the_time() -> None:
    parents = train(PPO, root_dir=None).folder.parents
    assert parents[1] == Path("runs")


def test_root_dir_with_checkpoints_is_resumed_and_that_is_said() -> None:
    train(PPO)
    run = train(PPO, num_iterations=6)
    assert (run.start.iterations, len(run.history)) == (4, 2)
    assert [line for line in run.console.splitlines() if "iteration 4" in line]


def test_algorithm_ctor() -> None:
    text = f"import tests.options.parts\nTrainerConfig.algorithm_ctor = @make_own_algorithm\n{NORMALIZER}"
    trainer = make(A2C, text, debug_summaries=True)
    given = trainer.algorithm.given
    assert given["observation_spec"] == trainer.algorithm.data_transformer.transformed_observation_spec
    assert (given["env"].batch_size, given["env"].name) == (4, "alfish/PolicyUnittest-v0")
    assert given["action_spec"] == given["env"].action_spec
    assert given["reward_spec"] == given["env"].reward_spec
    assert given["config"] is trainer.config
    assert given["debug_summaries"] is True
    assert trainer.train().iterations == 4


def test_algorithm_ctor_none_shows_the_line_to_add() -> None:
    without = "\n".join(line for line in PPO.splitlines() if "algorithm_ctor" not in line)
    assert "TrainerConfig.algorithm_ctor = @PPOAlgorithm" in refusal(without)


def test_data_transformer_ctor_at_rollout() -> None:
    seen: list[torch.Tensor] = []

    def watch(trainer) -> None:
        rollout_step = trainer.algorithm.rollout_step
        trainer.algorithm.rollout_step = lambda step, state: seen.append(step.reward) or rollout_step(step, state)

    huge = "ConstantRewardProbe.reward = 50.0\ncreate_environment.env_name = 'alfish/ConstantRewardProbe-v0'\n"
    run = train(PPO, huge + CLIPPING, prepare=watch)
    assert max(reward.max() for reward in seen) == 1.0
    assert run.result.mean_return == 50.0, "metrics show the environments' own rewards"


def test_data_transformer_ctor_at_replay_and_prediction() -> None:
    scale = """
        TrainerConfig.data_transformer_ctor = @RewardScaling
        RewardScaling.scale = 0.5
        TrainerConfig.evaluate = True
        TrainerConfig.async_eval = False
        TrainerConfig.num_eval_episodes = 1
    """
    trained, predicted = [], []

    def watch(trainer) -> None:
        compute_loss, predict_step = trainer.algorithm.compute_loss, trainer.algorithm.predict_step
        trainer.algorithm.compute_loss = lambda batch: trained.append(batch.time_step.reward) or compute_loss(batch)
        trainer.algorithm.predict_step = lambda step, state: predicted.append(step.reward) or predict_step(step, state)

    run = train(SAC, scale, prepare=watch)
    stored = run.trainer.algorithm.replay.gather_all().time_step.reward
    assert stored.max() > 0.5, "replay holds raw rewards"
    assert max(reward.max() for reward in trained) <= 0.5
    assert max(reward.max() for reward in predicted) <= 0.5


def test_data_transformer_ctor_takes_a_list() -> None:
    trainer = make(PPO, BOTH)
    transformer = trainer.algorithm.data_transformer
    assert isinstance(transformer, SequentialDataTransformer)
    assert [type(each).__name__ for each in transformer.transformers] == ["ObservationNormalizer", "RewardClipping"]
    trainer.close()


def test_data_transformer_ctor_refuses_a_wrong_order_and_shows_the_right_one() -> None:
    assert "TrainerConfig.data_transformer_ctor = [@FrameStacker, @ObservationNormalizer]" in refusal(SAC, WRONG_ORDER)


def test_data_transformer_ctor_is_saved_in_the_checkpoint() -> None:
    first = train(PPO, CARTPOLE + NORMALIZER)
    resumed = make(PPO, CARTPOLE + NORMALIZER, num_iterations=6)
    saved, loaded = (each.algorithm.data_transformer.state_dict() for each in (first.trainer, resumed))
    assert saved
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)
    assert any(name.endswith("count") and value > 0 for name, value in loaded.items())
    resumed.close()


def test_random_seed() -> None:
    one, same, other = (
        train(PPO, CARTPOLE, random_seed=seed, root_dir=name) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert torch.equal(one.weights, same.weights)
    assert one.history == same.history
    assert not torch.equal(one.weights, other.weights)


def test_random_seed_none_draws_one_that_repeats_the_run() -> None:
    drawn = train(PPO, CARTPOLE, random_seed=None)
    seed = json.loads(Path("run/run.json").read_text())["seed"]
    assert f"seed {seed}" in drawn.console
    assert torch.equal(train(PPO, CARTPOLE, random_seed=seed, root_dir="again").weights, drawn.weights)
    assert not torch.equal(train(PPO, CARTPOLE, random_seed=None, root_dir="other").weights, drawn.weights)


def test_random_seed_gives_every_part_a_stream_of_its_own() -> None:
    one = make(PPO, CARTPOLE)
    wider = make(PPO, CARTPOLE, "ActorDistributionNetwork.fc_layer_params=(4, 4)", root_dir="wider")
    # Other networks draw other numbers, and yet the environments begin as before.
    assert torch.equal(one.algorithm.time_step.observation, wider.algorithm.time_step.observation)
    assert weights(one).shape != weights(wider).shape
    one.close()
    wider.close()

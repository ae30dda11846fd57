from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import gin
import pytest
import torch

from alfish.errors import CheckpointError
from alfish.training.checkpoint import CheckpointFolder
from tests.training.tiny import ENDLESS, EVERY_ITERATION, bind, make, saved, train, weights

SCORES = {"score_fn": lambda result: SEQUENCE[result.iteration - 1]}
SEQUENCE = [1.0, 3.0, 2.0, 5.0, 4.0, 0.0, 6.0, 0.0]


def best(root_dir: str = "run") -> int:
    return CheckpointFolder(Path(root_dir) / "checkpoints").find("best").iteration


@pytest.mark.parametrize(
    ("num_checkpoints", "iterations", "expected"),
    [(0, 7, [7]), (1, 7, [7]), (2, 7, [4, 7]), (3, 9, [3, 6, 9]), (10, 4, [1, 2, 3, 4])],
)
def test_checkpoints_are_evenly_spaced_and_the_last_is_at_the_end(num_checkpoints, iterations, expected):
    bind()
    train(num_checkpoints=num_checkpoints, num_iterations=iterations)
    assert saved() == expected


def test_checkpoints_are_evenly_spaced_over_environment_steps_too():
    bind(ENDLESS)
    train(num_checkpoints=2, num_iterations=0, num_env_steps=200)  # 20 steps per iteration
    assert saved() == [5, 10]


def test_a_resumed_run_saves_as_often_as_one_that_was_not_stopped():
    bind()
    train(num_checkpoints=4, num_iterations=4)
    train(num_checkpoints=4, num_iterations=8)
    assert saved() == [1, 2, 3, 4, 6, 8]


def test_the_best_checkpoint_is_kept_and_the_one_before_given_up():
    bind()
    found = []
    hook = SimpleNamespace(on_iteration_end=lambda context: found.append((saved(), best())))
    train(num_iterations=8, num_checkpoints=0, hooks=[hook], **EVERY_ITERATION, **SCORES)
    assert found == [([1], 1), ([2], 2), ([2], 2), ([4], 4), ([4], 4), ([4], 4), ([7], 7), ([7, 8], 7)]


def test_a_best_checkpoint_that_was_due_anyway_is_not_given_up():
    bind()
    train(num_iterations=8, num_checkpoints=4, **EVERY_ITERATION, **SCORES)
    assert saved() == [2, 4, 6, 7, 8]
    assert best() == 7


def test_the_best_checkpoint_holds_the_parameters_that_were_evaluated():
    bind()
    seen = {}
    hook = SimpleNamespace(on_eval_end=lambda context: seen.update({context.result.iteration: weights(context)}))
    train(num_iterations=8, num_checkpoints=0, hooks=[hook], **EVERY_ITERATION, **SCORES)
    model = CheckpointFolder(Path("run/checkpoints")).find("best").load("model")
    assert torch.equal(torch.cat([tensor.flatten() for tensor in model.values()]), seen[7])


def test_the_best_score_survives_a_resume():
    bind()
    options = {"num_checkpoints": 0, **EVERY_ITERATION, **SCORES}
    train(num_iterations=4, **options)
    assert best() == 4
    trainer = train(num_iterations=6, **options)
    assert trainer.result.best_score == 5.0
    assert (saved(), best()) == ([4, 6], 4)
    train(num_iterations=7, **options)
    assert (saved(), best()) == ([6, 7], 7)


def test_without_keep_best_there_is_none():
    bind()
    train(num_checkpoints=1, **EVERY_ITERATION, keep_best=False)
    assert saved() == [4]
    assert not Path("run/checkpoints/best").exists()


def test_a_damaged_best_checkpoint_is_not_the_best_any_more():
    bind()
    options = {"num_checkpoints": 4, **EVERY_ITERATION, **SCORES}
    train(num_iterations=4, **options)
    Path("run/checkpoints/000004/model.pt").write_bytes(b"")
    trainer = make(num_iterations=4, **options)
    assert trainer.progress.iterations == 3
    assert trainer.result.best_score == 3.0
    assert best() == 2
    trainer.train()
    assert best() == 4


def test_another_architecture_is_refused_with_what_differs():
    bind()
    train()
    gin.bind_parameter("ActorDistributionNetwork.fc_layer_params", (8,))
    with pytest.raises(CheckpointError) as caught:
        make(num_iterations=8)
    message = str(caught.value)
    assert "holds another architecture:" in message
    assert "(4, 1) in the checkpoint, (8, 1) in the configuration" in message
    assert "actor_network" in message
    assert "value_network" not in message
    gin.bind_parameter("ActorDistributionNetwork.fc_layer_params", (4, 4))
    with pytest.raises(CheckpointError, match="only in the configuration"):
        make(num_iterations=8)


def test_another_optimizer_is_refused():
    bind()
    train()
    gin.parse_config("PPOAlgorithm.optimizer = @SGD()\nSGD.lr = 0.1")
    with pytest.raises(CheckpointError, match="holds an optimizer Adam, the configuration makes none"):
        make(num_iterations=8)

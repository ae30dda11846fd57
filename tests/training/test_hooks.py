from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace

import pytest

from alfish.algorithms.ppo import PPOAlgorithm
from alfish.config.problems import ConfigProblems
from alfish.training.checkpoint import CheckpointFolder
from alfish.training.hooks import MOMENTS, Context, EndContext
from tests.training.tiny import EVERY_ITERATION, bind, make, train


class Recorder:
    """Writes down every moment with its context."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, Context]] = []

    def __getattr__(self, name: str):
        if name not in MOMENTS:
            raise AttributeError(name)
        return lambda context: self.calls.append((name, context.progress.iterations, context))


def test_hooks_are_called_at_their_moments_with_what_belongs_to_them():
    bind()
    recorder = Recorder()
    trainer = train(
        num_iterations=1000,
        num_epochs=2,
        num_steps_per_epoch=40,
        num_checkpoints=1,
        evaluate=True,
        hooks=[recorder],
        keep_best=False,
    )
    # Two iterations of 20 steps are an epoch; context.progress is the run's own, so its numbers were copied.
    assert [(name, iteration) for name, iteration, _ in recorder.calls] == [
        ("on_train_start", 0),
        ("on_iteration_end", 1),
        ("on_eval_start", 2),
        ("on_eval_end", 2),
        ("on_iteration_end", 2),
        ("on_epoch_end", 2),
        ("on_iteration_end", 3),
        ("on_eval_start", 4),
        ("on_eval_end", 4),
        ("on_checkpoint", 4),
        ("on_iteration_end", 4),
        ("on_epoch_end", 4),
        ("on_train_end", 4),
    ]
    contexts = {name: context for name, _, context in recorder.calls}
    for name, context in contexts.items():
        assert type(context) is MOMENTS[name]
        assert isinstance(context.algorithm, PPOAlgorithm)
        assert context.config is trainer.config
        assert context.progress is trainer.progress
    assert contexts["on_eval_end"].result == trainer.result.evaluation
    assert contexts["on_epoch_end"].stats.epoch == 2
    assert contexts["on_checkpoint"].path == trainer.folder.checkpoints.at(4).path
    assert contexts["on_train_end"].result.iterations == 4


def test_every_saved_checkpoint_is_announced_once():
    bind()
    recorder = Recorder()
    train(num_iterations=6, num_checkpoints=0, hooks=[recorder], **EVERY_ITERATION, score_fn=lambda r: -r.iteration)
    announced = [context.path.name for name, _, context in recorder.calls if name == CHECKPOINT]
    assert announced == ["000001", "000006"]


def test_a_checkpoint_is_whole_when_it_is_announced():
    bind()
    announced = []

    def note(context) -> None:
        checkpoint = CheckpointFolder(context.path.parent).at(int(context.path.name))
        announced.append((checkpoint.iteration, checkpoint.damage()))

    # Every one is the best so far, and gives up the one before.
    train(
        num_checkpoints=0,
        hooks=[SimpleNamespace(on_checkpoint=note)],
        **EVERY_ITERATION,
        score_fn=attrgetter("iteration"),
    )
    assert announced == [(iteration, None) for iteration in range(1, 5)]


def test_a_hook_needs_only_the_methods_that_it_uses():
    bind()
    seen = []

    class OnlyTheEnd:
        def on_train_end(self, context: EndContext) -> None:
            seen.append(context.result.stopped_by)

    train(hooks=[OnlyTheEnd(), OnlyTheEnd()])
    assert seen == ["budget", "budget"]


def test_a_hook_without_any_of_the_methods_is_refused():
    bind()

    class Useless:
        def on_epoch_ended(self) -> None: ...

    with pytest.raises(ConfigProblems, match=r"TrainerConfig.hooks: Useless has none of the methods on_train_start, "):
        make(hooks=[Useless()])


def test_the_details_of_each_moment_are_typed():
    details = {name: sorted(set(kind.__annotations__)) for name, kind in MOMENTS.items() if kind is not Context}
    assert details == {
        "on_epoch_end": ["stats"],
        "on_eval_end": ["result"],
        "on_checkpoint": ["path"],
        "on_train_end": ["result"],
    }


CHECKPOINT = "on_checkpoint"

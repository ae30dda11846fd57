from __future__ import annotations

import gin
import pytest
import torch

from alfish.errors import CheckpointError, CheckpointMisfit, ConfigError
from alfish.training.run_folder import RunFolder
from alfish.training.trainer import Trainer
from alfish.training.transfer import TransferSource
from tests.training.tiny import EVERY_ITERATION, OPTIONS, TrainerConfig, bind, train


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("run", TransferSource("run")),
        ("a/b@best", TransferSource("a/b", "best")),
        ("run@100:actor_network", TransferSource("run", "100", "actor_network")),
        ("run:value_network._head", TransferSource("run", "latest", "value_network._head")),
        ("me@host/run@latest", TransferSource("me@host/run", "latest")),
    ],
)
def test_a_source_is_a_run_a_checkpoint_and_a_prefix(text, source):
    assert TransferSource.parse(text) == source


def test_a_folder_may_have_any_name(folder):
    (folder / "run@7:x").mkdir()
    assert TransferSource.parse("run@7:x") == TransferSource("run@7:x")


def test_an_empty_source_is_refused():
    with pytest.raises(ConfigError, match=r"RUN\[@step\|@best\]\[:prefix\]"):
        TransferSource.parse("")


@pytest.fixture
def source() -> dict[str, torch.Tensor]:
    """The parameters of a run in `run`."""
    bind()
    trainer = train(random_seed=3)
    return {name: value.clone() for name, value in trainer.algorithm.state_dict().items()}


def begun(init_from: str, **options) -> Trainer:
    trainer = Trainer(TrainerConfig(**{**OPTIONS, **options}), "new", init_from=init_from)
    trainer.close()
    return trainer


def test_a_new_run_begins_with_the_parameters_of_another(source):
    trainer = begun("run")
    own = trainer.algorithm.state_dict()
    assert set(own) == set(source)
    assert all(torch.equal(own[name], value) for name, value in source.items())
    assert trainer.progress.iterations == trainer.progress.updates == 0
    assert not any(trainer.algorithm.optimizer.state_dict().values())  # the optimizer begins anew
    recorded = RunFolder("new").read_run()["init_from"]
    assert (recorded["checkpoint"], recorded["prefix"], recorded["left"]) == (4, "", {})
    assert recorded["run"].endswith("/run")
    assert sorted(recorded["loaded"]) == sorted(source)
    assert "It began with parameters of" in (RunFolder("new").path / "README.md").read_text()


def test_the_checkpoint_may_be_chosen(source):
    first = RunFolder("run").checkpoints.at(1).load("model")
    own = begun("run@1").algorithm.state_dict()
    assert all(torch.equal(own[name], value) for name, value in first.items())
    assert not all(torch.equal(source[name], value) for name, value in first.items())


def test_the_best_checkpoint_may_be_chosen():
    bind()
    trainer = train(**EVERY_ITERATION, score_fn=lambda result: -result.iteration)
    assert trainer.result.best_score == -1
    begun("run@best")
    assert RunFolder("new").read_run()["init_from"]["checkpoint"] == 1


def test_a_prefix_takes_over_a_part(source):
    own = begun("run:actor_network").algorithm.state_dict()
    for name, value in source.items():
        if not value.eq(0).all():  # biases of the other run may be zero as well
            assert torch.equal(own[name], value) == name.startswith("actor_network."), name
    assert "(those under `actor_network`)" in (RunFolder("new").path / "README.md").read_text()


def test_a_prefix_ends_at_a_dot(source):
    with pytest.raises(CheckpointError, match=r"under 'actor_netwo'\. Did you mean actor_network\?"):
        begun("run:actor_netwo")


def test_what_does_not_fit_is_told_with_the_reason(source, capsys):
    gin.bind_parameter("ValueNetwork.fc_layer_params", (8, 4))
    trainer = begun("run", verbose=True)
    own = trainer.algorithm.state_dict()
    assert all(torch.equal(own[name], source[name]) for name in source if name.startswith("actor_network."))
    err = capsys.readouterr().err
    assert f"of {len(own)} tensors are those of run, iteration 4; not taken over:" in err
    assert "value_network._encoding._dense.layers.0.weight: (4, 1) there, (8, 1) here\n" in err
    assert "value_network._encoding._dense.layers.1.weight: only here\n" in err


def test_when_nothing_fits_that_is_an_error(source):
    gin.bind_parameter("ValueNetwork.fc_layer_params", (8, 8))
    with pytest.raises(CheckpointMisfit, match=r"nothing of .*000004 fits this algorithm") as caught:
        begun("run:value_network._encoding")
    assert "(4, 1) there, (8, 1) here" in str(caught.value)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    ("init_from", "message"), [("gone@best", "no run folder gone. It expects"), ("run@9", "no checkpoint '9'")]
)
def test_a_source_that_is_not_there_is_told(source, init_from, message):
    with pytest.raises(CheckpointError, match=message):
        begun(init_from)

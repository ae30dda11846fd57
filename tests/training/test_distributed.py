"""Several processes train one model."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any

import pytest
import torch

from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.collective import Collective
from alfish.config.problems import ConfigProblems
from alfish.training.distributed import (
    Opening,
    Place,
    ProcessGroup,
    agreed_stop,
    fitted_options,
    patience,
    ranks_of,
    refuse_uneven_work,
)
from tests.thread_ranks import on_ranks
from tests.training.ranks import notes, torchrun, two_ranks

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "host"}
TORCHRUN |= {"MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}


# As a user starts them


@pytest.fixture
def trained() -> list[dict[str, Any]]:
    # The limits of PPO and the statistics of the normalizer are reached by each rank at other moments.
    ended = torchrun(
        "TrainerConfig.num_iterations=0",
        "TrainerConfig.num_env_steps=150",
        "TrainerConfig.mini_batch_length=1",
        "PPOLoss.target_kl=0.0003",
        "TrainerConfig.data_transformer_ctor=[@ObservationNormalizer]",
    )
    assert ended.codes == (0,), ended.errors
    assert "2 ranks" in ended.errors[0]
    return notes()


def test_torchrun_trains_one_model_in_environments_of_each_rank(trained: list[dict[str, Any]]) -> None:
    first, second = trained
    assert first["model"].keys() == second["model"].keys()
    for name, tensor in first["model"].items():
        assert torch.equal(tensor, second["model"][name]), name
    seen = first["model"]["data_transformer.transformers.0.moments.0.count"]
    assert seen == 2 * 4 * (5 * first["iteration"] + 1)  # by the 4 environments of both, with the newest one
    assert not torch.equal(first["action"], second["action"])

    # Counters are those of all ranks, so that the budget ends at the same iteration everywhere.
    assert first["env_steps"] == second["env_steps"] == first["own_steps"] + second["own_steps"] >= 150
    assert (first["iteration"], first["updates"]) == (second["iteration"], second["updates"])
    assert first["updates"] < 3 * 5 * first["iteration"]  # the limit was reached

    # One folder, of rank 0.
    facts = json.loads(Path("run/run.json").read_text())
    assert (facts["num_ranks"], facts["env_steps"], facts["state"]) == (2, first["env_steps"], "done")
    assert {path.name for path in Path().iterdir()} == {"run", "config.gin", "rank-0.pt", "rank-1.pt"}
    assert len(list(Path("run/train").iterdir())) == 1
    assert [path.name for path in Path("run/checkpoints").iterdir() if path.name.isdigit()] == [
        f"{first['iteration']:06d}"
    ]
    saved = torch.load(f"run/checkpoints/{first['iteration']:06d}/model.pt", weights_only=True)
    assert all(torch.equal(tensor, second["model"][name]) for name, tensor in saved.items())


def test_a_rank_that_dies_ends_the_other_one() -> None:
    began = time.monotonic()
    ended = two_ranks("ProbedPPO.fault='kill'")
    assert ended.codes == (7, -SIGKILL)
    assert "rank 0 of 2 lost another one" in ended.errors[0]
    assert "Traceback" not in ended.errors[0]
    assert time.monotonic() - began < 100  # nearly all of it imports; an answer is waited for up to 300 s


def test_a_rank_that_hangs_is_not_waited_for_longer_than_the_patience() -> None:
    ended = two_ranks("ProbedPPO.fault='hang'", TEST_PATIENCE="4")
    assert ended.codes[0] == 7
    assert "did not answer for 4 s" in ended.errors[0]
    assert torch.load("rank-0.pt", weights_only=False)["iteration"] == 2


def test_a_signal_to_one_rank_ends_all_after_the_same_iteration_and_the_run_goes_on_from_there() -> None:
    ended = two_ranks("ProbedPPO.fault='signal'", "ProbedPPO.fault_iteration=3")
    assert ended.codes == (128 + SIGTERM, 128 + SIGTERM), ended.errors
    assert [each["iteration"] for each in notes()] == [3, 3]
    assert "saving at iteration 3" in ended.errors[0]
    steps = notes()[0]["env_steps"]

    ended = two_ranks("TrainerConfig.ddp_paras_check_interval=1")
    assert ended.codes == (0, 0), ended.errors
    assert "the others with new ones: not to the bit" in ended.errors[0]
    first, second = notes()
    assert [first["iteration"], second["iteration"]] == [6, 6]
    assert first["env_steps"] == second["env_steps"] > steps + second["own_steps"]
    assert all(torch.equal(tensor, second["model"][name]) for name, tensor in first["model"].items())


# The parts


def test_torchrun_tells_each_process_its_place() -> None:
    assert Place.of(TORCHRUN) == Place(3, 8, 1, 2, "host", 29500, "2", True)
    group = ranks_of(TORCHRUN)
    assert isinstance(group, ProcessGroup)
    assert (group.rank, group.size, group.num_local) == (3, 8, 2)


def test_a_process_without_torchrun_is_alone_and_needs_no_torch_distributed() -> None:
    for environ in ({}, {**TORCHRUN, "WORLD_SIZE": "1"}, {"WORLD_SIZE": "8", "RANK": "3"}):
        assert type(ranks_of(environ)) is Collective
    assert not torch.distributed.is_initialized()
    assert "torch.distributed.elastic" not in sys.modules


def test_rank_0_has_the_streams_of_a_run_by_itself_and_the_others_their_own() -> None:
    new, resumed = Opening(7, 0), Opening(7, 20)
    assert new.seeds(0).root == resumed.seeds(0).root == 7
    roots = [opening.seeds(rank).root for opening in (new, resumed) for rank in (1, 2)]
    assert len({7, *roots}) == 5
    assert new.seeds(1).root == Opening(7, 0).seeds(1).root


def test_patience_lasts_for_an_evaluation() -> None:
    assert patience(TrainerConfig(algorithm_ctor=PPOAlgorithm)) == 300
    assert patience(TrainerConfig(algorithm_ctor=PPOAlgorithm, evaluate=True, eval_timeout=50)) == 350


@pytest.mark.parametrize(
    "options",
    [
        {"async_unroll": True},
        {"unroll_episodes": 4},
        {"offline_buffer_dir": "data"},
        {"ml_type": "sl"},
    ],
)
def test_what_several_ranks_cannot_do_is_refused(options: dict[str, Any]) -> None:
    config = TrainerConfig(algorithm_ctor=PPOAlgorithm, **options)
    assert fitted_options(config, Collective()) is config
    with pytest.raises(ConfigProblems, match=rf"TrainerConfig\.{next(iter(options))}.*does not go with torchrun"):
        fitted_options(config, ranks_of(TORCHRUN))


def test_passes_over_replay_are_refused_since_ranks_have_different_ones() -> None:
    config = TrainerConfig(algorithm_ctor=DqnAlgorithm)
    dqn = object.__new__(DqnAlgorithm)
    refuse_uneven_work(config, dqn, Collective())
    refuse_uneven_work(config, object.__new__(PPOAlgorithm), ranks_of(TORCHRUN))
    with pytest.raises(ConfigProblems, match=r"whole_replay_buffer_training.*DqnAlgorithm.*set it to False"):
        refuse_uneven_work(config, dqn, ranks_of(TORCHRUN))


def test_each_rank_has_its_own_gpu() -> None:
    config = TrainerConfig(algorithm_ctor=PPOAlgorithm, device="cuda")
    assert fitted_options(config, ranks_of(TORCHRUN)).device == "cuda:1"


def test_a_signal_to_any_rank_counts_and_rank_0_says_when_the_run_is_over() -> None:
    def told(ranks: Collective) -> tuple[Signals | None, bool]:
        return agreed_stop(ranks, SIGTERM if ranks.rank == 1 else None, ranks.rank == 0)

    assert on_ranks(2, told) == [(SIGTERM, True)] * 2
    assert on_ranks(2, lambda ranks: agreed_stop(ranks, None, ranks.rank == 1)) == [(None, False)] * 2
    assert agreed_stop(Collective(), SIGTERM, False) == (SIGTERM, False)

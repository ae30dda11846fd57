from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from alfish import config
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.command import run
from alfish.config.problems import ConfigProblems


def problems(**options) -> list[str]:
    """What is wrong with these options."""
    with pytest.raises(ConfigProblems) as caught:
        TrainerConfig(**{"algorithm_ctor": object, **options})
    return [str(problem) for problem in caught.value.problems]


def test_the_options_cannot_be_changed_afterwards():
    options = TrainerConfig(algorithm_ctor=object)
    with pytest.raises(FrozenInstanceError):
        options.num_iterations = 3
    with pytest.raises(TypeError):
        TrainerConfig("run", object)


def test_what_was_set_is_known():
    assert TrainerConfig(algorithm_ctor=object, num_iterations=5).non_default() == {"algorithm_ctor", "num_iterations"}
    assert TrainerConfig(algorithm_ctor=object, num_iterations=1000).non_default() == {"algorithm_ctor"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_iterations", -1),
        ("num_iterations", "ten"),
        ("num_iterations", 1.5),
        ("unroll_length", 0),
        ("mini_batch_size", 0),
        ("mini_batch_size", "half"),
        ("num_threads", 0),
        ("epsilon_greedy", 1.1),
        ("num_eval_episodes", -2),
        ("nan_policy", "ignore"),
        ("evaluate", 3),
        ("summary_interval", 0),
        ("random_seed", -1),
    ],
)
def test_values_out_of_range_or_of_another_type_are_refused(option, value):
    (problem,) = problems(**{option: value})
    assert problem.startswith(f"TrainerConfig.{option}")


def test_everything_that_is_wrong_is_reported_together():
    found = problems(algorithm_ctor=None, num_iterations=0, num_eval_episodes=0)
    assert len(found) == 3
    assert [found[0].split(":")[0], found[1].split(":")[0]] == [
        "TrainerConfig.algorithm_ctor",
        "TrainerConfig.num_iterations and TrainerConfig.num_env_steps",
    ]


CONFLICTING = """
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.stop_condition = @Plateau()
TrainerConfig.num_iterations = 0
"""


def test_conflicts_in_a_config_are_told_with_file_and_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.gin").write_text(CONFLICTING)

    def main(argv) -> int:
        config.load(["mine.gin"], argv)
        TrainerConfig()
        return 0

    assert run(main, ["TrainerConfig.num_eval_episodes=0"]) == 2
    err = capsys.readouterr().err
    assert "error: 3 problems in the configuration" in err
    assert "TrainerConfig.num_iterations (mine.gin:4) and TrainerConfig.num_env_steps (default): are both 0" in err
    assert "TrainerConfig.stop_condition (mine.gin:3) and TrainerConfig.evaluate (default): a stop_condition" in err
    assert "command line: TrainerConfig.num_eval_episodes: is 0" in err
    assert "Traceback" not in err
    assert run(main, ["TrainerConfig.num_iterations=1e6", "TrainerConfig.evaluate=True"]) == 0

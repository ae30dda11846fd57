"""Every option about summaries changes what is found in the event file, in the tables, or on the console."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from alfish.summary.summary import Summary
from alfish.training.trainer import Trainer
from tests.options.running import A2C, CARTPOLE, DQN, ENDLESS, EVALUATE, PPO, SAC, events, refusal, scalars, train
from tests.options.summary_parts import Overheard

EVERY = "TrainerConfig.summary_interval = 1\n"
OWN = "import tests.options.summary_parts\n"
ALGORITHMS = pytest.mark.parametrize("preset", [PPO, A2C, DQN, SAC], ids=["ppo", "a2c", "dqn", "sac"])


def written(run: Any, tag: str = "Loss/loss") -> list[int]:
    """The steps that TensorBoard shows a tag at."""
    return [event.step for event in events(run.folder / "train").Scalars(tag)]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# When


def test_summary_interval():
    run = train(PPO, num_iterations=7, summary_interval=3, summarize_first_interval=False)
    assert written(run) == written(run, "Metrics/EnvironmentSteps") == [3, 6]


def test_summary_interval_costs_nothing_in_between(monkeypatch):
    """What the summaries of an iteration that does not write would compute is not computed."""
    collected: list[tuple[int, str]] = []
    scalar, histogram = Summary.scalar, Summary.histogram
    current = [0]

    def note(method: Any) -> Any:
        def call(self: Summary, name: str, value: Any) -> None:
            if self.enabled:
                collected.append((current[0], name))
            method(self, name, value)

        return call

    monkeypatch.setattr(Summary, "scalar", note(scalar))
    monkeypatch.setattr(Summary, "histogram", note(histogram))

    def follow(trainer: Trainer) -> None:
        current[0] = trainer.progress.iterations

    switches = "debug_summaries summarize_grads_and_vars summarize_gradient_noise_scale summarize_output"
    text = "".join(f"TrainerConfig.{name} = True\n" for name in switches.split())
    options = {"summary_interval": 3, "summarize_first_interval": False}
    train(PPO, text, "TrainerConfig.summarize_action_distributions=True", num_iterations=4, each=follow, **options)
    assert {iteration for iteration, _ in collected} == {2}  # the third one, which begins after two


def test_num_summaries():
    run = train(PPO, num_iterations=10, num_summaries=4, summarize_first_interval=False)
    assert written(run) == [3, 5, 8, 10]


def test_num_summaries_over_environment_steps():
    options = {"num_iterations": 0, "num_env_steps": 160, "num_summaries": 4, "summarize_first_interval": False}
    assert written(train(PPO, ENDLESS, **options)) == [2, 4, 6, 8]


@pytest.mark.parametrize(("first", "expected"), [(True, [1, 2, 3, 6]), (False, [3, 6])])
def test_summarize_first_interval(first, expected):
    assert written(train(PPO, num_iterations=6, summary_interval=3, summarize_first_interval=first)) == expected


@pytest.mark.parametrize(("preset", "each"), [(PPO, 3), (DQN, 3), (A2C, 1)], ids=["ppo", "dqn", "a2c"])
def test_update_counter_every_mini_batch(preset, each):
    updates = {"num_updates_per_train_iter": 3} if each == 3 else {}
    run = train(preset, EVERY, update_counter_every_mini_batch=True, num_iterations=2, **updates)
    assert written(run) == [*range(1, 2 * each + 1)]
    assert written(run, "Optimizer/Adam/gradient_norm") == written(run)
    assert written(run, "Metrics/EnvironmentSteps") == [1, 2]
    assert [int(row["updates"]) for row in table(run.folder / "updates.csv")] == written(run)


def test_update_counter_every_mini_batch_is_off():
    run = train(PPO, EVERY, num_updates_per_train_iter=3, num_iterations=2)
    assert written(run) == [1, 2]
    assert not (run.folder / "updates.csv").exists()


# How soon


def sizes(**options: Any) -> list[int]:
    """Events of losses in the file, as somebody sees it who looks after every iteration."""
    seen = []

    def look(trainer: Trainer) -> None:
        folder = trainer.folder.path / "train"
        seen.append(len(scalars(folder, "Loss/loss")) if folder.exists() else 0)

    train(PPO, EVERY, each=look, num_iterations=4, **options)
    return seen[:-1]  # the checkpoint at the end takes everything with it


def test_summaries_flush_secs():
    assert sizes(summaries_flush_secs=0, summary_max_queue=1000) == [1, 2, 3]
    assert sizes(summaries_flush_secs=1000, summary_max_queue=1000, root_dir="slow") == [0, 0, 0]


def test_summaries_flush_secs_holds_also_when_nothing_new_is_written():
    seen = []

    def look(trainer: Trainer) -> None:
        time.sleep(0.06)
        seen.append(bool(list((trainer.folder.path / "train").glob("events*"))))

    options = {"summary_interval": 1000, "summarize_first_interval": False, "summary_max_queue": 1000}
    train(PPO, each=look, num_iterations=3, summaries_flush_secs=0.1, **options)  # the table of optimizers waits
    assert seen[-1]


def test_summary_max_queue():
    # An iteration has three events, and the start one: losses and metrics against three axes.
    assert sizes(summaries_flush_secs=1000, summary_max_queue=1) == [1, 2, 3]
    assert sizes(summaries_flush_secs=1000, summary_max_queue=7, root_dir="slow") == [0, 2, 2]


# What


def test_every_metric_is_written_against_three_axes():
    run = train(PPO, EVERY, num_iterations=2)
    metrics = {tag.partition("/")[2] for tag in run.tags() if tag.startswith("Metrics/")}
    assert {"AverageReturn", "AverageEpisodeLength", "EnvironmentSteps", "NumberOfEpisodes"} <= metrics
    for axis, steps in (("EnvironmentSteps", [20, 36]), ("WallTime", None)):
        found = {tag.partition("/")[2] for tag in run.tags() if tag.startswith(f"Metrics_vs_{axis}/")}
        assert found == metrics
        if steps:
            assert [*run.scalars(f"Metrics_vs_{axis}/NumberOfEpisodes")] == steps


def test_metric_min_buffer_size():
    """Of episodes that return 1, 2, 3, ... the last so many count."""
    one = "create_environment.num_parallel_environments = 1\n"
    text = f'{OWN}create_environment.env_name = "CountingEpisodes-v0"\n{one}{EVERY}'
    for size, expected in ((1, 8.0), (3, 7.0), (100, 4.5)):
        run = train(PPO, text, metric_min_buffer_size=size, unroll_length=6, root_dir=f"run{size}")
        assert [*run.scalars("Metrics/AverageReturn").values()][-1] == expected


@ALGORITHMS
def test_debug_summaries(preset):
    plain, more = (train(preset, EVERY, debug_summaries=on, root_dir=str(on)) for on in (False, True))
    added = more.tags() - plain.tags()
    assert {"Debug/action", "Debug/reward"} < added
    assert all(tag.startswith("Debug/") for tag in added)
    assert len(added) >= 4  # something about values, too
    assert (more.weights == plain.weights).all()


@ALGORITHMS
def test_summarize_grads_and_vars(preset):
    plain, more = (train(preset, EVERY, summarize_grads_and_vars=on, root_dir=str(on)) for on in (False, True))
    added = more.tags() - plain.tags()
    names = [name for name, parameter in more.trainer.algorithm.named_parameters() if parameter.requires_grad]
    learned = [name for name in names if "target" not in name]
    assert added >= {
        f"{kind}/{name}{end}" for kind in ("Parameters", "Gradients") for name in learned for end in ("", "/norm")
    }
    assert all(tag.startswith(("Parameters/", "Gradients/")) for tag in added)
    last = dict(more.trainer.algorithm.named_parameters())[learned[0]]
    assert [*more.scalars(f"Parameters/{learned[0]}/norm").values()][-1] == pytest.approx(last.norm().item(), rel=1e-5)


@ALGORITHMS
def test_summarize_gradient_noise_scale(preset):
    on = {"summarize_gradient_noise_scale": True}  # and nothing else
    plain, more = train(preset, EVERY, root_dir="plain"), train(preset, EVERY, root_dir="more", **on)
    added = more.tags() - plain.tags()
    assert {"GradientNoise/Adam/squared_gradient", "GradientNoise/Adam/variance"} <= added
    assert all(tag.startswith("GradientNoise/") for tag in added)
    assert all(value > 0 for value in more.scalars("GradientNoise/Adam/variance").values())
    assert (more.weights == plain.weights).all()


def test_summarize_gradient_noise_scale_follows_the_noise():
    """The same gradient for every sample has no noise; a reward that is random has much."""

    def noise(env: str) -> float:
        text = f'{EVERY}create_environment.env_name = "alfish/{env}-v0"\n'
        options = {"num_iterations": 20, "unroll_length": 4, "mini_batch_length": 1, "mini_batch_size": 16}
        run = train(
            PPO,
            text,
            "PPOLoss.normalize_advantages=False",
            root_dir=env,
            summarize_gradient_noise_scale=True,
            **options,
        )
        relative = [*run.scalars("GradientNoise/Adam/variance").values()][-1]
        return relative / [*run.scalars("GradientNoise/Adam/squared_gradient").values()][-1]

    assert abs(noise("ConstantRewardProbe")) < abs(noise("ObservationRewardProbe"))


DISTRIBUTIONS = {
    "ppo": (PPO, "", {"entropy", "probability", "probability/0", "probability/1"}),
    "a2c": (A2C, "TrainerConfig.unroll_with_grad = True", {"entropy", "probability", "probability/0", "probability/1"}),
    "sac": (SAC, "", {"entropy", "mean", "std"}),
    "mixed": (
        PPO,
        'create_environment.env_name = "alfish/MixedPolicyUnittest-v0"',
        {*(f"0/{name}" for name in ("entropy", "probability", "probability/0", "probability/1"))}
        | {f"1/{name}" for name in ("entropy", "mean", "std")},
    ),
}


@pytest.mark.parametrize("case", DISTRIBUTIONS)
def test_summarize_action_distributions(case):
    preset, text, expected = DISTRIBUTIONS[case]
    plain, more = (
        train(preset, f"{EVERY}{text}\n", summarize_action_distributions=on, root_dir=str(on)) for on in (False, True)
    )
    assert more.tags() - plain.tags() == {f"ActionDistribution/{name}" for name in expected}
    assert (more.weights == plain.weights).all()


def test_summarize_action_distributions_without_any():
    console = train(DQN, summarize_action_distributions=True).console
    assert "TrainerConfig.summarize_action_distributions: no effect, since DqnAlgorithm has no distribution" in console


@ALGORITHMS
def test_summarize_output(preset):
    plain, more = (train(preset, EVERY, summarize_output=on, root_dir=str(on)) for on in (False, True))
    added = more.tags() - plain.tags()
    assert added
    assert all(tag.startswith("Output/") for tag in added)
    network = "q_network" if preset is DQN else "actor_network"
    first = f"Output/{network}._encoding._dense.layers.0"
    assert {first, f"{first}/mean", f"{first}/std"} <= added
    assert not any("target" in tag for tag in added)
    assert (more.weights == plain.weights).all()


# Where


def test_loggers_of_a_user(monkeypatch):
    monkeypatch.setattr(Overheard, "lines", [])
    run = train(
        PPO, f"{OWN}{EVERY}{EVALUATE}TrainerConfig.loggers = [@Overheard(), @JsonlLogger()]\n", num_iterations=2
    )
    losses = {moment.iterations: values["Loss/loss"] for moment, values in Overheard.lines if "Loss/loss" in values}
    assert losses == pytest.approx(run.scalars("Loss/loss"))
    scores = {m.iterations: v["eval/Metrics/Score"] for m, v in Overheard.lines if "eval/Metrics/Score" in v}
    assert scores == pytest.approx(run.scalars("Metrics/Score", "eval"))
    lines = [json.loads(line) for line in (run.folder / "progress.jsonl").read_text().splitlines()]
    assert len(lines) == len(Overheard.lines)
    assert {line["iterations"]: line["Loss/loss"] for line in lines if "Loss/loss" in line} == losses


def test_loggers_from_the_command_line():
    run = train(PPO, EVERY, "TrainerConfig.loggers=[@JsonlLogger()]", 'JsonlLogger.file="numbers.jsonl"')
    rows = table(run.folder / "progress.csv")
    lines = [json.loads(line) for line in (run.folder / "numbers.jsonl").read_text().splitlines()]
    assert [line["Loss/loss"] for line in lines] == [float(row["Loss/loss"]) for row in rows]


def test_loggers_go_on_with_a_resumed_run():
    text = f"{EVERY}TrainerConfig.loggers = [@JsonlLogger()]\n"
    first = train(PPO, text, num_iterations=4, num_checkpoints=2)
    first.trainer.folder.checkpoints.remove(first.trainer.folder.checkpoints.at(4))
    run = train(PPO, text, num_iterations=4, num_checkpoints=2)
    lines = [json.loads(line) for line in (run.folder / "progress.jsonl").read_text().splitlines()]
    assert [line["iterations"] for line in lines] == [1, 2, 3, 4]


def test_loggers_that_fail_do_not_stop_a_run():
    run = train(PPO, f"{OWN}{EVERY}TrainerConfig.loggers = [@Overheard()]\nOverheard.fails = True\n")
    assert run.result.iterations == 4
    assert run.console.count("Overheard.write: RuntimeError: the line is dead. Training goes on") == 1
    assert written(run) == [1, 2, 3, 4]


def test_loggers_to_weights_and_biases(monkeypatch):
    logged: list[dict[str, float]] = []
    run = SimpleNamespace(id="x", define_metric=lambda *_, **__: None, log=logged.append, finish=lambda: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: run))
    train(PPO, f"{EVERY}TrainerConfig.loggers = [@WandbLogger()]\n")
    assert [each["iterations"] for each in logged] == [1, 2, 3, 4]


def test_loggers_whose_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "pip install 'alfish[wandb]'" in refusal(PPO, "TrainerConfig.loggers = [@WandbLogger()]\n")


def test_loggers_that_are_none():
    assert "has no method write(moment, values)" in refusal(PPO, "TrainerConfig.loggers = [@Adam()]\n")


# Vector rewards


VECTOR = f'{OWN}create_environment.env_name = "OneAndThree-v0"\n{EVERY}{EVALUATE}'


@pytest.mark.parametrize(
    ("how", "expected"), [("None", 4.0), ("'sum'", 4.0), ("'mean'", 2.0), ("'min'", 0.0), ("'max'", 4.0),
                          ("(0.5, 1.0)", 2.0), ("@difference", -4.0)]
)  # fmt: skip
def test_reward_reduction(how, expected):
    text = f"TrainerConfig.stop_condition = @ReturnAtLeast()\nReturnAtLeast.value = {expected}\n"
    run = train(PPO, VECTOR + text, f"TrainerConfig.reward_reduction={how}")
    assert run.result.stopped_by == "ReturnAtLeast"
    assert run.result.iterations == 1
    assert run.result.best_score == run.result.mean_return == expected
    assert run.scalars("Metrics/AverageReturn") == run.scalars("Metrics/Score", "eval") == {1: expected}
    assert (run.scalars("Metrics/AverageReturn/0"), run.scalars("Metrics/AverageReturn/1")) == ({1: 4.0}, {1: 0.0})


def test_reward_reduction_in_an_evaluation_upon_training_success():
    text = "TrainerConfig.stop_condition = @ReturnAtLeast()\nReturnAtLeast.value = 3.0\n"
    options = {"eval_interval": 100, "evaluate_upon_training_success": True}
    assert train(PPO, VECTOR + text, root_dir="sum", **options).result.iterations == 1
    assert train(PPO, VECTOR + text, root_dir="mean", reward_reduction="mean", **options).result.iterations == 4


def test_reward_reduction_that_does_not_fit():
    said = refusal(PPO, VECTOR, reward_reduction=(1.0, 2.0, 3.0))
    assert "TrainerConfig.reward_reduction" in said
    assert "has 3 weights, but the reward has 2 elements" in said


def test_reward_reduction_of_one_number():
    said = train(PPO, reward_reduction="mean").console
    assert "TrainerConfig.reward_reduction: no effect, since the reward is one number already" in said


# On the console


@pytest.mark.parametrize("show", [True, False])
def test_show_progress(show):
    console = train(PPO, CARTPOLE, show_progress=show).console
    lines = [line for line in console.splitlines() if "100%" in line and "steps" in line]
    assert len(lines) == (1 if show else 0)


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose(verbose):
    console = train(PPO, verbose=verbose, show_progress=False).console
    assert ("PPOAlgorithm with" in console) == verbose
    assert verbose or console == ""

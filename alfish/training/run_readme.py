"""The README.md of a run folder, for the person who finds it in a year."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alfish.training.results import metrics_text

_COMMANDS = """\
## What to do with it

These commands need this folder, wherever it is, and nothing else; they are given inside it, hence the `.`:

{looking}
- What is in the checkpoints, and are they whole: `alfish inspect .`
- Curves: `tensorboard --logdir=.`
- Go on: `python -m alfish.train --root_dir=. {more}`
- Train once more from the start, with the same seed: `python -m alfish.train --gin_file=config.gin --root_dir=../again`
"""
_PLAYING = """\
- Watch it: `python -m alfish.play --root_dir=.`, without a display with `--record_file=play.mp4`
- How good is it: `python -m alfish.evaluate --root_dir=. --num_episodes=100`"""
_TESTING = "- How good is it on the test data: `python -m alfish.evaluate --root_dir=.`"
_FILES = """\
## What is in it

- `run.json`: seed, versions, command line, machine, budget, state, result
- `config.gin`: every option that was set, and where it came from; repeats the run
- `operative.gin`: every option that was used, defaults included; `operative-<iteration>.gin`: the same for every change
  of options, from the iteration on that the run went on from with them
- `progress.csv`: the course of training as a table; `eval/progress.csv`: that of the evaluations
- `train/`, `eval/`: the same for TensorBoard
- `checkpoints/`: a folder per checkpoint, named after its iteration, with checksums; `best` had the best evaluation
"""


def readme_text(facts: Mapping[str, Any]) -> str:
    """The README for what `run.json` says; facts that are missing are left out."""
    title = f"# {facts.get('algorithm', 'A run')} on {facts.get('environment', facts.get('data', 'an environment'))}"
    versions = facts.get("versions", {})
    trained = (
        f"Trained with alfish {versions.get('alfish')} (torch {versions.get('torch')}, gymnasium "
        f"{versions.get('gymnasium')}, Python {facts.get('python')}) {_source(facts)}, "
        f"for {facts.get('budget')}, with seed {facts.get('seed')}."
    )
    lines = [title, "", trained, *_origin(facts), *_course(facts), *_result(facts)]
    if facts.get("modules"):
        lines.append(f"The configuration imports {', '.join(facts['modules'])}, which Python must be able to find.")
    looking = _TESTING if _is_supervised(facts) else _PLAYING
    return "\n".join([*lines, "", _COMMANDS.format(looking=looking, more=_more(facts)), _FILES])


def _is_supervised(facts: Mapping[str, Any]) -> bool:
    return bool(facts.get("ml_type") == "sl")


def _source(facts: Mapping[str, Any]) -> str:
    if _is_supervised(facts):
        return f"on {facts.get('num_examples')} examples"
    number = facts.get("num_environments")
    return "in 1 environment" if number == 1 else f"in {number} environments"


def _origin(facts: Mapping[str, Any]) -> list[str]:
    source = facts.get("init_from")
    if source is None:
        return []
    under = f" (those under `{source['prefix']}`)" if source["prefix"] else ""
    return [f"It began with parameters{under} of {source['run']}, iteration {source['checkpoint']:,}."]


def _course(facts: Mapping[str, Any]) -> list[str]:
    if "ended" not in facts:
        return [f"Started {facts.get('started')}. This was written at the start: `alfish inspect .` knows the state."]
    done = f"{facts['iterations']:,} iterations, {facts['env_steps']:,} environment steps, {facts['updates']:,} updates"
    if _is_supervised(facts):
        done = f"{facts['iterations']:,} epochs, {facts['updates']:,} updates"
    return [f"Started {facts['started']}, ended {facts['ended']} ({facts['state']}) after {done}."]


def _result(facts: Mapping[str, Any]) -> list[str]:
    evaluation = facts.get("evaluation")
    if evaluation is None:
        return []
    if _is_supervised(facts):
        return [
            f"Last evaluation: {metrics_text(evaluation['metrics'])}, after epoch {evaluation['iteration']:,}. "
            f"Best score of all evaluations: {facts['best_score']:.4g}."
        ]
    return [
        f"Last evaluation: mean return {evaluation['mean_return']:.2f} +- {evaluation['std_return']:.2f} over "
        f"{evaluation['episodes']} episodes, at iteration {evaluation['iteration']:,}. "
        f"Best score of all evaluations: {facts['best_score']:.2f}."
    ]


def _more(facts: Mapping[str, Any]) -> str:
    """The bindings that double the budget."""
    limits = facts.get("limits", {})
    if "num_epochs" in limits:
        limits = {"num_epochs": limits["num_epochs"]}
    return " ".join(f"TrainerConfig.{name}={2 * limit}" for name, limit in limits.items())

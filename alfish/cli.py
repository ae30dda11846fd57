"""The console command `alfish`: looks up the subcommand and hands over. Imports what that one needs, no more."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import alfish
from alfish.config.command import run
from alfish.errors import ConfigError

USAGE = """\
usage: alfish COMMAND ...

  train [flags] CONFIG [Name.argument=value ...]   train an agent
  evaluate [flags] RUN                             play episodes with a trained one and print the return
  play [flags] RUN                                 watch it, or record a film of it
  collect [flags] RUN DATASET                      record episodes, for offline learning
  inspect [--json] RUN                             what a run folder holds: state, results, checkpoints
  diff [--json] RUN RUN                            what two runs did differently, beside their results
  list                                             configs, and all that can be configured
  describe NAME                                    arguments, types, defaults and documentation of a configurable
  explain CONFIG_OR_RUN [KEY] [Name.argument=value ...]
                                                   where values come from, and what they override
  validate CONFIG ... [Name.argument=value ...]    check configs without starting anything

`alfish train --help` lists the flags of a command.
"""


def main() -> int:
    """Entry point of the console command."""
    return run(dispatch)


def dispatch(argv: Sequence[str]) -> int:
    """Runs the subcommand that `argv` names; returns the exit code."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if argv else 2
    if argv[0] == "--version":
        print(f"alfish {alfish.__version__}")
        return 0
    name, *rest = argv
    if name not in _COMMANDS:
        from alfish.config.problems import nearest

        close = nearest(name, _COMMANDS)
        hint = f"Did you mean `alfish {close}`?" if close else "`alfish --help` lists the commands."
        raise ConfigError(f"{name}: no such command. {hint}")
    if any(argument in ("-h", "--help") for argument in rest) and name not in _ENTRY_POINTS:
        print(USAGE, end="")
        return 0
    return _COMMANDS[name](rest)


def _list(argv: Sequence[str]) -> int:
    from alfish.config.scan import scan_names
    from alfish.config.show import list_text

    _expect(argv, 0, 0, "alfish list")
    print(list_text(scan_names()))
    return 0


def _describe(argv: Sequence[str]) -> int:
    from alfish.config.scan import scan
    from alfish.config.show import describe_text

    _expect(argv, 1, 1, "alfish describe NAME")
    print(describe_text(scan(), argv[0]))
    return 0


def _explain(argv: Sequence[str]) -> int:
    from alfish.config.loading import read
    from alfish.config.scan import scan
    from alfish.config.show import explain_text

    names, bindings = _split(argv)
    _expect(names, 1, 2, "alfish explain CONFIG_OR_RUN [KEY]")
    in_run = Path(names[0]) / "config.gin"
    config = read([str(in_run) if in_run.is_file() else names[0]], bindings)
    print(explain_text(config, scan(), names[1] if len(names) > 1 else None))
    return 0


def _validate(argv: Sequence[str]) -> int:
    from alfish.config.loading import read
    from alfish.config.problems import ConfigProblems, Problem
    from alfish.environments.ids import unknown_ids

    names, bindings = _split(argv)
    _expect(names, 1, None, "alfish validate CONFIG ...")
    problems: list[Problem] = []
    for name in names:
        try:
            config = read([name], bindings)
        except ConfigProblems as found:
            problems.extend(found.problems)
            continue
        for warning in config.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        unknown = unknown_ids(config)
        problems.extend(unknown)
        if not unknown:
            print(f"{name}: ok, {len(config.bindings)} bindings")
    if problems:
        raise ConfigProblems(problems)
    return 0


def _inspect(argv: Sequence[str]) -> int:
    from dataclasses import asdict

    from alfish.training.inspection import inspect_run, inspection_text

    as_json, names = _take_json(argv)
    _expect(names, 1, 1, "alfish inspect [--json] RUN")
    facts = inspect_run(Path(names[0]))
    print(json.dumps(asdict(facts), indent=1) if as_json else inspection_text(facts))
    return 0


def _diff(argv: Sequence[str]) -> int:
    from alfish.training.comparison import compare_runs, comparison_text

    as_json, names = _take_json(argv)
    _expect(names, 2, 2, "alfish diff [--json] RUN RUN")
    comparison = compare_runs(Path(names[0]), Path(names[1]))
    print(json.dumps(comparison.as_dict(), indent=1) if as_json else comparison_text(comparison))
    return 0


def _take_json(argv: Sequence[str]) -> tuple[bool, list[str]]:
    return "--json" in argv, [argument for argument in argv if argument != "--json"]


def _forward(module: str) -> Callable[[Sequence[str]], int]:
    def command(argv: Sequence[str]) -> int:
        result: int = importlib.import_module(module).main(argv)
        return result

    return command


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    return [a for a in argv if "=" not in a], [a for a in argv if "=" in a]


def _expect(argv: Sequence[str], least: int, most: int | None, usage: str) -> None:
    flags = [argument for argument in argv if argument.startswith("-")]
    if flags:
        raise ConfigError(f"{flags[0]}: no such flag. usage: {usage}")
    if len(argv) < least or (most is not None and len(argv) > most):
        raise ConfigError(f"usage: {usage}")


_ENTRY_POINTS = {name: _forward(f"alfish.{name}") for name in ("train", "evaluate", "play", "collect")}
_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": _list,
    "describe": _describe,
    "explain": _explain,
    "validate": _validate,
    "inspect": _inspect,
    "diff": _diff,
    **_ENTRY_POINTS,
}

if __name__ == "__main__":
    sys.exit(main())

"""Writes docs/options.md: every option with its type, default, meaning, other names and tests, from the code.

    python tools/make_options_page.py

Options are read from the sources, without running them; tests are found by their names, `test_<option>` or
`test_<option>_<promise>` in tests/options. Whatever an option lacks is an error.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from option_names import APPLIES, IN_ALF, IN_TIANSHOU

from alfish.algorithms.option_conflicts import idle_options
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.catalog import Catalog, Configurable, Parameter
from alfish.config.loading import register_all
from alfish.config.scan import scan

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "options.md"
TESTS = ROOT / "tests" / "options"
_INTRODUCTION = """# Options

Every option of a run, by `Name.option = value` in a .gin or on the command line. This page is written from the code by
[tools/make_options_page.py](../tools/make_options_page.py): do not edit it. `alfish describe TrainerConfig` shows the
same at a terminal.

An option that would change results and cannot is refused at the start; one that is only idle is warned of. *ALF*: ALF
has the option under the same name. *Tianshou*: its names there, of version 1 and of version 2. Every test of an
option drives a run from the text of a config, and fails when the option is ignored.
"""


class MissingError(Exception):
    """What is missing on the page, all of it."""


@dataclass(frozen=True)
class Test:
    """A function of tests/options."""

    file: str
    function: str


@dataclass(frozen=True)
class Option:
    """A row of the page."""

    owner: str  # TrainerConfig, create_environment or ReplayBuffer
    group: str
    parameter: Parameter

    @property
    def name(self) -> str:
        return self.parameter.name


def options(catalog: Catalog) -> list[Option]:
    """All that the page is about, in order."""
    trainer, environment, replay = (
        _entry(catalog, name) for name in ("TrainerConfig", "create_environment", "ReplayBuffer")
    )
    groups = _groups(Path(trainer.path))
    found = [Option(trainer.name, groups[parameter.name], parameter) for parameter in trainer.parameters]
    found += [Option(environment.name, "", parameter) for parameter in environment.parameters]
    kept = replay.parameter("enable_checkpoint")
    assert kept is not None
    return [*found, Option(replay.name, "", kept)]


def collect_tests(names: Iterable[str], folder: Path = TESTS) -> dict[str, list[Test]]:
    """The tests of every option; a test belongs to the longest name that its own begins with."""
    found: dict[str, list[Test]] = {name: [] for name in names}
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                rest = node.name.removeprefix("test_")
                matching = [name for name in found if rest == name or rest.startswith(f"{name}_")]
                if matching:
                    found[max(matching, key=len)].append(Test(path.name, node.name))
    return found


def problems(all_options: Iterable[Option], tests: Mapping[str, list[Test]]) -> list[str]:
    """What is missing, and names that nothing has any more."""
    rows = list(all_options)
    names = [option.name for option in rows]
    found = [f"{name}: two options of one name" for name in sorted({name for name in names if names.count(name) > 1})]
    for option in rows:
        if not option.parameter.doc:
            found.append(f"{option.owner}.{option.name}: no documentation; add a line to `Args:` of {option.owner}")
        if not tests[option.name]:
            found.append(f"{option.owner}.{option.name}: no test; add test_{option.name} to tests/options")
        if option.name not in APPLIES:
            found.append(f"{option.owner}.{option.name}: not in APPLIES; add what it is for to tools/option_names.py")
    return found


def make_page() -> str:
    """The text of the page.

    Raises:
        MissingError: an option lacks something.
    """
    all_options = options(scan())
    tests = collect_tests(option.name for option in all_options)
    missing = problems(all_options, tests)
    if missing:
        raise MissingError("\n".join(missing))
    idle = _idle_reasons()
    lines = [_INTRODUCTION]
    heading = None
    for option in all_options:
        wanted = f"## {option.owner}" + (f": {option.group.lower()}" if option.group else "")
        if wanted != heading:
            heading = wanted
            lines += ["", heading, "", "| option | meaning | for | elsewhere | tests |", "|---|---|---|---|---|"]
        lines.append(_row(option, idle.get(option.name, []), tests[option.name]))
    lines += ["", "## Algorithms", "", *_algorithms()]
    lines += ["", "## Supervised learning", "", "Idle while `ml_type = 'sl'`, and warned of:", "", _idle_supervised()]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _row(option: Option, idle: list[str], tests: list[Test]) -> str:
    parameter = option.parameter
    kind = parameter.type_text or "any value"
    applies = [APPLIES[option.name], *(f"idle while {reason}" for reason in idle)]
    elsewhere = ["*ALF*"] if option.name in IN_ALF else []
    elsewhere += [f"*Tianshou*: {IN_TIANSHOU[option.name]}"] if option.name in IN_TIANSHOU else []
    first, *others = tests
    shown = f"[`{first.file}::{first.function}`](../tests/options/{first.file})"
    shown += f" and {len(others)} more" if others else ""
    cells = [
        f"`{option.name}`<br>{_code(kind)}<br>{_code(parameter.default_text.removeprefix('default '))}",
        " ".join(parameter.doc.split()),
        "; ".join(applies),
        "; ".join(elsewhere) or "-",
        shown,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(text: str) -> str:
    return f"`{text}`"


def _entry(catalog: Catalog, name: str) -> Configurable:
    entry = catalog.get(name)
    assert entry is not None, name
    return entry


def _groups(path: Path) -> dict[str, str]:
    """The comment above the fields of the class that an option stands under."""
    groups, group = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if comment := re.fullmatch(r"    # (.+)", line):
            group = comment[1]
        elif field := re.match(r"    (\w+): ", line):
            groups[field[1]] = group
    return groups


def _all_idle(**changes: Any) -> dict[str, list[str]]:
    """By reason, as the warnings of a run say it: what is idle with these options when all are set."""
    defaults = {field.name: field.default for field in fields(TrainerConfig)}
    config: Any = SimpleNamespace(**{**defaults, **changes}, non_default=lambda: set(defaults))
    return idle_options(config)


def _idle_reasons() -> dict[str, list[str]]:
    """By option: what makes it idle."""
    reasons: dict[str, list[str]] = {}
    for changes in ({}, {"evaluate": True, "async_eval": False}):
        for reason, names in _all_idle(**changes).items():
            for name in names:
                if reason not in reasons.setdefault(name, []):
                    reasons[name].append(reason)
    return {name: [f"`{reason.replace(' is ', ' = ')}`" for reason in found] for name, found in reasons.items()}


def _idle_supervised() -> str:
    idle = next(names for reason, names in _all_idle(ml_type="sl").items() if "ml_type" in reason)
    return ", ".join(f"`{name}`" for name in sorted(idle)) + "."


def _algorithms() -> Iterator[str]:
    """What the words of the column "for" mean, by algorithm."""
    register_all()
    yield "| algorithm | learns | gives priorities | refuses, since it has no effect |"
    yield "|---|---|---|---|"
    for kind in sorted(_subclasses(RLAlgorithm), key=lambda kind: kind.__name__):
        if not kind.__module__.startswith("alfish.") or not isinstance(getattr(kind, "on_policy", None), bool):
            continue
        idle = kind.idle_options if isinstance(kind.idle_options, Mapping) else {}
        refused = ", ".join(f"`{name}`" for name in idle) or "-"
        learns = "on-policy" if kind.on_policy else "off-policy"
        if kind.on_policy and kind.single_update:
            learns += ", one update per unroll"
        yield f"| `{kind.__name__}` | {learns} | {'yes' if kind.provides_priority else 'no'} | {refused} |"


def _subclasses(kind: type[RLAlgorithm]) -> set[type[RLAlgorithm]]:
    own = set(kind.__subclasses__())
    return own.union(*(_subclasses(each) for each in own))


if __name__ == "__main__":
    try:
        PAGE.write_text(make_page(), encoding="utf-8")
    except MissingError as missing:
        sys.exit(str(missing))
    print(f"{PAGE.relative_to(ROOT)}: {len(options(scan()))} options")

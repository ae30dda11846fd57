"""What of a configuration was used, and what was not."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from alfish.config import gin_state
from alfish.config.carry import Operative, operative_keys
from alfish.config.gin_state import Key
from alfish.config.problems import ConfigProblems, Problem, join_lines
from alfish.config.record import Binding, Config

logger = logging.getLogger(__name__)


def format_problems(problems: Sequence[Problem], config: Config | None) -> str:
    """Problems as a user reads them, each option with where it was set."""
    return join_lines([_format_problem(problem, config) for problem in problems])


def _format_problem(problem: Problem, config: Config | None) -> str:
    if problem.place is not None or config is None or not problem.keys:
        return str(problem)
    if len(problem.keys) == 1:
        binding = config.binding(problem.keys[0])
        return str(problem) if binding is None else f"{binding.place}: {problem}"
    named = [f"{key} ({config.where(key)})" for key in problem.keys]
    return f"{', '.join(named[:-1])} and {named[-1]}: {problem.message}"


def operative_text() -> str:
    """Every argument that was used, defaults and worker processes included, as a .gin with origins."""
    config = gin_state.current()
    lines = [item.text for item in config.imports] if config is not None else []
    group = ""
    for (scope, selector, argument), value in sorted(operative_keys().items(), key=_reading_order):
        if not argument or selector.startswith("gin."):
            continue
        name = f"{scope}/{gin_state.short_name(selector)}" if scope else gin_state.short_name(selector)
        if name != group:
            group = name
            lines.append("")
        line = f"{name}.{argument} = {value}" if value else f"# {name}.{argument}: an object made in Python"
        origin = _origin((scope, selector, argument), config)
        lines.append(f"{line}  # {origin}")
    macros = [f"{b.text}  # {b.place}" for b in config.bindings if b.is_macro] if config is not None else []
    return "\n".join([*macros, *lines, ""]).lstrip("\n")


def read_operative(text: str) -> dict[str, str]:
    """The values that `operative_text` wrote, by key."""
    return {key: value for key, (value, _) in _read_lines(text).items()}


def read_origins(text: str) -> dict[str, str]:
    """Where the values that `operative_text` wrote came from, by key."""
    return {key: origin for key, (_, origin) in _read_lines(text).items()}


def _read_lines(text: str) -> dict[str, tuple[str, str]]:
    """Value and origin, by key."""
    found = {}
    for line in text.splitlines():
        binding, _, origin = line.rpartition("  # ")
        key, equals, value = binding.partition(" = ")
        if equals and not key.startswith("#"):
            found[key] = (value, origin)
    return found


def _reading_order(item: tuple[Key, str]) -> tuple[str, str, str]:
    scope, selector, argument = item[0]
    return selector, scope, argument


def _origin(used: Key, config: Config | None) -> str:
    bindings = [] if config is None else [b for b in config.bindings if _supplies(gin_state.full_name(b), used)]
    return str(max(bindings, key=lambda b: len(b.scope)).place) if bindings else "default"


def _supplies(bound: Key, used: Key) -> bool:
    """Whether a binding reaches a call: it holds in its scope and in the scopes inside that."""
    return bound[1:] == used[1:] and f"{used[0]}/".startswith(f"{bound[0]}/" if bound[0] else "")


def inoperative_lines() -> list[str]:
    """A message for every binding that nothing used, with file and line, and why."""
    config = gin_state.current()
    if config is None:
        return []
    used = operative_keys()
    bound = {gin_state.full_name(binding): binding for binding in config.bindings}
    reached = {_nearest_bound(key, bound) for key in used}
    return [
        f"{binding.place}: {binding.key} was never used ({_reason(key, binding, used)})"
        for key, binding in bound.items()
        if key not in reached
    ]


def _nearest_bound(used: Key, bound: dict[Key, Binding]) -> Key | None:
    """The binding that a call in nested scopes takes its value from: the innermost."""
    candidates = [key for key in bound if _supplies(key, used)]
    return max(candidates, key=lambda key: len(key[0])) if candidates else None


def _reason(key: Key, binding: Binding, used: Operative) -> str:
    scope, selector, argument = key
    if binding.is_macro:
        return "no value that was used refers to it"
    scopes = sorted({used_scope for used_scope, used_selector, _ in used if used_selector == selector})
    if not scopes:
        return f"{binding.name} was never built"
    if not any(_supplies((scope, selector, ""), (used_scope, selector, "")) for used_scope in scopes):
        shown = ", ".join(repr(used_scope) for used_scope in scopes if used_scope)
        return f"{binding.name} was never built in scope {scope!r}" + (f", only in {shown}" if shown else "")
    inner = any(_supplies(key, entry) for entry in used)
    return "bindings in inner scopes override it" if inner else f"the code that builds it gives {argument} itself"


def report_inoperative(strict: bool = False) -> list[str]:
    """Warns of bindings that nothing used, or refuses them.

    Args:
        strict: raise `ConfigProblems` instead of warning.
    """
    lines = inoperative_lines()
    if strict and lines:
        raise ConfigProblems([Problem((), line) for line in lines])
    for line in lines:
        logger.warning("%s", line)
    return lines

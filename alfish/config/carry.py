"""Taking the configuration along into a worker process, and bringing home what the worker used of it.

Workers are spawned, so gin is empty there. They get the configuration as text: `gin.config_str()` would drop what
it cannot write, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from alfish.config import gin_state
from alfish.config.gin_state import Home, Key
from alfish.config.loading import install_text
from alfish.config.overrides import PYTHON
from alfish.config.problems import ConfigProblems, Problem
from alfish.config.record import Binding, Config
from alfish.config.values import Reference, is_literal, render, walk
from alfish.errors import ConfigError

Operative = dict[Key, str]
"""Arguments that were used, with their values as text ("" for what cannot be written). Picklable."""


@dataclass(frozen=True)
class Carried:
    """A configuration that can be pickled.

    Args:
        text: the configuration, flattened.
        digest: what it must amount to on the other side.
        homes: where the configurables that it names live.
    """

    text: str
    digest: str
    homes: Mapping[str, Home]

    def install(self) -> Config:
        """Loads the configuration in this process. Raises `ConfigError` if it does not come out the same.

        Modules of alfish are imported when a value that needs them is asked for: a worker that steps an environment
        imports no torch on account of the configuration.
        """
        config = install_text(self.text, self.homes, "config of the parent process")
        if config.digest != self.digest:
            raise ConfigError(
                f"the configuration is not the same in this process as in its parent (digest {config.digest[:12]}, "
                f"expected {self.digest[:12]}). Do both run the same code?"
            )
        return config


def carried(config: Config) -> Carried:
    """The configuration as gin has it now, with what was bound from Python after it was loaded.

    Raises:
        ConfigProblems: something was bound from Python that cannot be written, and would be lost.
    """
    loaded = {gin_state.full_name(binding): binding for binding in config.bindings}
    bindings: list[Binding] = []
    problems: list[Problem] = []
    for key, value in gin_state.bound_values().items():
        known = loaded.get(key)
        if known is not None and render(known.value) == render(value):
            bindings.append(known)
            continue
        scope, selector, argument = key
        if selector == gin_state.MACRO:
            binding = Binding("", "", scope, value, PYTHON)
        else:
            binding = Binding(scope, gin_state.short_name(selector), argument, value, PYTHON)
        bindings.append(binding)
        if not is_literal(value):
            message = f"was bound from Python to a {type(value).__name__}, which cannot be written for worker processes"
            problems.append(Problem((binding.key,), message))
    if problems:
        raise ConfigProblems(problems)
    live = replace(config, bindings=tuple(bindings))
    names = [binding.name for binding in bindings if binding.name]
    names.extend(leaf.name for binding in bindings for leaf in walk(binding.value) if isinstance(leaf, Reference))
    return Carried(live.text, live.digest, {name: gin_state.home_of(name) for name in names})


def operative_keys() -> Operative:
    """What this process, and the workers that reported to it, used so far. For a worker to send home."""
    here = {key: render(value) if is_literal(value) else "" for key, value in gin_state.used_values().items()}
    return {**gin_state.worker_values(), **here}


def merge_operative(keys: Operative) -> None:
    """Counts what a worker used as used, so that reports are right where environments live in workers."""
    gin_state.add_worker_values(keys)

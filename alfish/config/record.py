"""The configuration of a run, as a record."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import alfish
from alfish.config.history import Past, write_history
from alfish.config.problems import Place
from alfish.config.sources import Source
from alfish.config.values import render

if TYPE_CHECKING:
    from alfish.config.carry import Carried


@dataclass(frozen=True)
class Binding:
    """A value given to an argument (`actor/Adam.lr = 0.1`) or to a macro (`LR = 0.1`, without a name)."""

    scope: str
    name: str
    argument: str
    value: Any
    place: Place
    past: tuple[Past, ...] = ()

    @property
    def is_macro(self) -> bool:
        return not self.name

    @property
    def key(self) -> str:
        scope = f"{self.scope}/" if self.scope else ""
        return f"{scope}{self.name}.{self.argument}" if self.name else f"{scope}{self.argument}"

    @property
    def text(self) -> str:
        """The binding as a line of a .gin."""
        return f"{self.key} = {render(self.value)}"


@dataclass(frozen=True)
class Import:
    """An `import` line for a user's module."""

    text: str
    module: str
    local_name: str
    place: Place


@dataclass(frozen=True)
class Config:
    """Everything that was configured, checked, and where each value came from.

    Args:
        sources: the files as read.
        overrides: the command line's bindings, as given.
        imports: user modules to import first.
        bindings: what is in effect, in the order given. Every key once.
        notes: what was understood differently from how it was written, for the log.
        warnings: what is allowed but probably not meant.
    """

    sources: tuple[Source, ...]
    overrides: tuple[str, ...]
    imports: tuple[Import, ...]
    bindings: tuple[Binding, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A short name for the run: that of the first file given."""
        stem = self.sources[0].label.replace("\\", "/").rpartition("/")[2] if self.sources else "config"
        return stem.removesuffix(".gin")

    @cached_property
    def text(self) -> str:
        """All bindings in effect as one .gin, with where each came from. Loading it gives an equal digest."""
        imports = [(item.text, [Past(item.place, "")]) for item in self.imports]
        bindings = [(item.text, [Past(item.place, ""), *item.past]) for item in self.bindings]
        return write_history(alfish.__version__, [*imports, *bindings])

    @cached_property
    def digest(self) -> str:
        """Equal for configurations that mean the same, whatever files they were written in."""
        lines = sorted([*(item.text for item in self.imports), *(binding.text for binding in self.bindings)])
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def binding(self, key: str) -> Binding | None:
        """The binding of `TrainerConfig.num_iterations`, `actor/Adam.lr`, or the macro `LR`."""
        return next((binding for binding in self.bindings if binding.key == key), None)

    def where(self, key: str) -> str:
        """Where a value was set: `ppo.gin:12`, `command line`, or `default`."""
        binding = self.binding(key)
        return str(binding.place) if binding is not None else "default"

    def carried(self) -> Carried:
        """This configuration, picklable, for a worker process to `install()`."""
        from alfish.config.carry import carried

        return carried(self)

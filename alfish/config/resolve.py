"""From statements to the bindings in effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gin import config_parser

from alfish.config.catalog import Catalog
from alfish.config.history import Past
from alfish.config.modules import is_own
from alfish.config.overrides import COMMAND_LINE
from alfish.config.problems import Place
from alfish.config.record import Binding, Import
from alfish.config.sources import Line
from alfish.config.values import render


@dataclass(frozen=True)
class Resolved:
    """The bindings in effect, all names that were used in any statement, and what to say about them."""

    bindings: tuple[Binding, ...]
    names: tuple[tuple[str, str, Place], ...]  # name, argument ("" for a block's heading), place
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def collect_imports(lines: Sequence[Line]) -> tuple[list[Import], list[str]]:
    """The user modules to import, and notes on import lines that are not needed."""
    imports: dict[str, Import] = {}
    notes = []
    for line in lines:
        statement = line.statement
        if not isinstance(statement, config_parser.ImportStatement):
            continue
        if is_own(statement.module):
            notes.append(f"{line.place}: {statement.format()}: not needed, alfish registers its own names")
            continue
        item = Import(statement.format(), statement.module, statement.bound_name(), line.place)
        imports.setdefault(item.text, item)
    return list(imports.values()), notes


def resolve(lines: Sequence[Line], catalog: Catalog) -> Resolved:
    """Applies the statements in order: the last binding of a key wins, and remembers those it overrode."""
    bindings: dict[str, Binding] = {}
    names: list[tuple[str, str, Place]] = []
    notes: list[str] = []
    warnings: list[str] = []
    for line in lines:
        statement = line.statement
        if isinstance(statement, config_parser.BlockDeclaration):
            names.append((statement.selector, "", line.place))
        if not isinstance(statement, config_parser.BindingStatement):
            continue
        binding = _binding(statement, line, catalog)
        if not binding.is_macro:
            names.append((statement.selector, statement.arg_name, line.place))
        earlier = bindings.pop(binding.key, None)
        if earlier is not None:
            past = Past(earlier.place, render(earlier.value))
            binding = Binding(**{**vars(binding), "past": (*binding.past, past, *earlier.past)})
            same_file = earlier.place.file == line.place.file and earlier.place.line is not None
            if same_file and earlier.place.included_by == line.place.included_by:
                warnings.append(
                    f"{line.place}: {binding.key}: set a second time; the first, at {earlier.place}, is lost"
                )
            elif line.place == COMMAND_LINE:
                notes.append(f"{line.place}: {binding.text}, overriding {past.value} ({earlier.place})")
        bindings[binding.key] = binding
    return Resolved(tuple(bindings.values()), tuple(names), tuple(notes), tuple(warnings))


def _binding(statement: config_parser.BindingStatement, line: Line, catalog: Catalog) -> Binding:
    if not statement.arg_name:
        return Binding(statement.scope, "", statement.selector, statement.value, line.place, line.past)
    found = catalog.get(statement.selector)
    # One spelling per configurable, so that `alfish.Adam.lr` overrides `Adam.lr`.
    name = catalog.shortest_name(found) if found is not None else statement.selector
    return Binding(statement.scope, name, statement.arg_name, statement.value, line.place, line.past)

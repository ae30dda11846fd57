"""Reads configurables out of syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from alfish.config import docstring
from alfish.config.annotation import ANYTHING, from_source
from alfish.config.catalog import PACKAGE_ROOT, Catalog, Configurable, Parameter
from alfish.config.kinds import Kind, Made

_Definition = ast.ClassDef | ast.FunctionDef
# A decorator at the left, its name if it gives one, and the name of what is defined after it.
_DECLARATION = re.compile(
    rb"""^@(?:[\w.]+\.)?configurable\b(?:\(\s*["'](\w+)["'])?.*?^(?:class|def) (\w+)""", re.MULTILINE | re.DOTALL
)


class Name(NamedTuple):
    """What a configurable is called, and in which module it is defined."""

    name: str
    module: str


@dataclass
class Module:
    """A source file: what it defines and what it imports, by local name."""

    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_bytes())

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, _Definition):
                found[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node
        return found

    @cached_property
    def imports(self) -> dict[str, str]:
        found = {}
        for node in _statements(self.tree.body):
            if isinstance(node, ast.ImportFrom):
                source = self._absolute(node)
                found.update({alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names})
            elif isinstance(node, ast.Import):
                found.update({alias.asname: alias.name for alias in node.names if alias.asname})
                found.update({a.name.partition(".")[0]: a.name.partition(".")[0] for a in node.names if not a.asname})
        return found

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        base = parts if self.path.name == "__init__.py" else parts[:-1]
        return ".".join([*base[: len(base) - node.level + 1], *([node.module] if node.module else [])])


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Those that run at import; signatures can name nothing else. To look into every function would take long."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, name, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)


@dataclass
class Scanner:
    """Modules by name, and how a name in one of them is found in another."""

    modules: dict[str, Module] = field(default_factory=dict)

    def add_package(self, root: Path) -> None:
        """All modules of a package folder, which may lie inside another package."""
        top = root.parent
        while (top / "__init__.py").exists():
            top = top.parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(top).with_suffix("").parts
            self.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)

    def add(self, name: str, path: Path) -> None:
        self.modules.setdefault(name, Module(name, path))

    def configurables(self) -> Iterator[Configurable]:
        for module in list(self.modules.values()):
            # Parsing is what takes time, and most files declare nothing.
            if b"configurable" not in module.path.read_bytes():
                continue
            for node in module.tree.body:
                if isinstance(node, _Definition) and _is_configurable(node):
                    yield self._entry(module, node)

    def names(self) -> Iterator[Name]:
        """Of all configurables, in a fraction of the time: without parsing."""
        for module in self.modules.values():
            source = module.path.read_bytes()
            if b"configurable" in source:
                for given, defined in _DECLARATION.findall(source):
                    yield Name((given or defined).decode(), module.name)

    def _entry(self, module: Module, node: _Definition) -> Configurable:
        text = ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            signature = self._class_signature(module, node)
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    text = text if docstring.arguments(text) else f"{text}\n\n{ast.get_docstring(method) or ''}".strip()
        else:
            signature = self._function_signature(module, node.args)
        notes = docstring.arguments(text)
        parameters = tuple(
            Parameter(p.name, p.annotation, p.kind, p.default, notes.get(p.name) or p.doc)
            for p in (signature or {}).values()
        )
        return Configurable(
            _configured_name(node) or node.name,
            module.name,
            isinstance(node, ast.ClassDef),
            parameters,
            text,
            str(module.path),
            node.lineno,
            is_open=signature is None or _catch_all(node),
        )

    def _class_signature(self, module: Module, node: ast.ClassDef) -> dict[str, Parameter] | None:
        """Arguments of the constructor, inherited ones included; None where a base class is out of sight."""
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                return self._function_signature(module, method.args, skip=1)
        inherited: dict[str, Parameter] | None = {}
        for base in node.bases:
            if ast.unparse(base).partition("[")[0].rpartition(".")[2] in ("object", "Protocol", "Generic", "ABC"):
                continue
            found = self.find(module, ast.unparse(base).partition("[")[0])
            if found is None or not isinstance(found[1], ast.ClassDef):
                inherited = None
                break
            inherited = self._class_signature(found[0], found[1])
            break
        if not _is_dataclass(node):
            return inherited
        fields = dict(inherited or {})
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if "ClassVar" in ast.unparse(statement.annotation) or _is_internal_field(statement.value):
                    continue
                fields[statement.target.id] = self._parameter(
                    module, statement.target.id, statement.annotation, _field_default(statement.value)
                )
        return fields

    def _function_signature(self, module: Module, arguments: ast.arguments, skip: int = 0) -> dict[str, Parameter]:
        positional = [*arguments.posonlyargs, *arguments.args]
        padding: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        pairs: list[tuple[ast.arg, ast.expr | None]] = list(
            zip(positional, [*padding, *arguments.defaults], strict=True)
        )[skip:]
        pairs.extend(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
        return {arg.arg: self._parameter(module, arg.arg, arg.annotation, default) for arg, default in pairs}

    def _parameter(self, module: Module, name: str, annotation: ast.expr | None, default: ast.expr | None) -> Parameter:
        return Parameter(
            name,
            ast.unparse(annotation).strip("'") if annotation is not None else "",
            self._kind(module, annotation) if annotation is not None else ANYTHING,
            ast.unparse(default) if default is not None else None,
        )

    def _kind(self, module: Module, annotation: ast.expr) -> Kind:
        def resolve(name: str) -> Kind:
            found = self.find(module, name)
            if found is None:
                return ANYTHING
            home, node = found
            if isinstance(node, ast.ClassDef):
                # What a Protocol or an Enum accepts is not known from its name.
                loose = any(ast.unparse(base).endswith(("Protocol", "Enum", "NewType")) for base in node.bases)
                return ANYTHING if loose else Made(node.name)
            if isinstance(node, ast.Assign):
                return self._kind(home, node.value)
            return ANYTHING

        try:
            return from_source(annotation, resolve)
        except (SyntaxError, ValueError, RecursionError, IndexError):
            return ANYTHING

    def find(self, module: Module, name: str) -> tuple[Module, ast.stmt] | None:
        """The definition that a dotted name in `module` leads to, through imports."""
        for _ in range(10):
            head, _, rest = name.partition(".")
            if not rest and head in module.definitions:
                return module, module.definitions[head]
            if head not in module.imports:
                return None
            owner, _, name = f"{module.imports[head]}{'.' + rest if rest else ''}".rpartition(".")
            if owner not in self.modules:
                return None
            module = self.modules[owner]
        return None


def scan(roots: Iterable[Path] = (PACKAGE_ROOT,), modules: Iterable[tuple[str, Path]] = ()) -> Catalog:
    """The catalog of package folders and single modules."""
    return Catalog.of(_scanner(roots, modules).configurables())


def scan_names(roots: Iterable[Path] = (PACKAGE_ROOT,)) -> list[Name]:
    """The names in package folders, as in their catalog."""
    return list(_scanner(roots).names())


def _scanner(roots: Iterable[Path], modules: Iterable[tuple[str, Path]] = ()) -> Scanner:
    scanner = Scanner()
    for root in roots:
        scanner.add_package(root)
    for name, path in modules:
        scanner.add(name, path)
    return scanner


def _decorators(node: _Definition) -> Iterator[tuple[str, ast.expr]]:
    for decorator in node.decorator_list:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield ast.unparse(call).rpartition(".")[2], decorator


def _is_configurable(node: _Definition) -> bool:
    return any(name == "configurable" for name, _ in _decorators(node))


def _configured_name(node: _Definition) -> str | None:
    """The name in `@gin.configurable("name")`."""
    for name, decorator in _decorators(node):
        if name == "configurable" and isinstance(decorator, ast.Call) and decorator.args:
            value = decorator.args[0]
            return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
    return None


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(name in ("dataclass", "record") for name, _ in _decorators(node))


def _catch_all(node: _Definition) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.args.kwarg is not None
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
    return any(method.args.kwarg is not None for method in methods)


def _keyword(value: ast.expr | None, name: str) -> ast.expr | None:
    if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field":
        return next((keyword.value for keyword in value.keywords if keyword.arg == name), None)
    return None


def _is_internal_field(value: ast.expr | None) -> bool:
    init = _keyword(value, "init")
    return isinstance(init, ast.Constant) and init.value is False


def _field_default(value: ast.expr | None) -> ast.expr | None:
    if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field":
        factory = _keyword(value, "default_factory")
        return ast.Call(factory, [], []) if factory is not None else _keyword(value, "default")
    return value

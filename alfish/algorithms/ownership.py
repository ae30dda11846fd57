"""Which optimizer owns which parameter: each trainable parameter exactly one.

The nearest owner wins: modules given to `add_optimizer` first, then the default optimizer of the nearest
enclosing algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from alfish.algorithms.algorithm import Algorithm
from alfish.errors import ConfigError
from alfish.optimizers.optimizer import Optimizer


@dataclass(frozen=True)
class Ownership:
    """The optimizers of an algorithm tree with the parameters they own, by name."""

    optimizers: dict[str, Optimizer]
    parameters: dict[str, dict[str, nn.Parameter]]
    frozen: tuple[str, ...]  # parameters that do not require a gradient

    def report(self) -> str:
        """A table for the log: optimizer, number of values, parameter names."""
        lines = []
        for name, owned in self.parameters.items():
            lines.append(f"{name} ({self.optimizers[name]}): {sum(p.numel() for p in owned.values()):,} values")
            lines += [f"    {parameter} {tuple(owned[parameter].shape)}" for parameter in owned]
        if self.frozen:
            lines.append(f"no optimizer (not trained): {', '.join(self.frozen)}")
        return "\n".join(lines)


def assign_optimizers(root: Algorithm) -> Ownership:
    """Finds the owner of every parameter below `root` and hands the parameters to the optimizers."""
    owners: dict[nn.Parameter, tuple[str, str, Optimizer]] = {}
    orphans: list[str] = []
    frozen: list[str] = []
    optimizers: dict[str, Optimizer] = {}

    def visit(module: nn.Module, path: str, owner: Optimizer | None, explicit: dict[nn.Module, Optimizer]) -> None:
        if isinstance(module, Algorithm):
            owner = module.optimizer or owner
            explicit = explicit | _explicit(module)
        owner = explicit.get(module, owner)
        for name, parameter in module.named_parameters(recurse=False):
            claim(f"{path}{name}", parameter, owner)
        for name, child in module.named_children():
            visit(child, f"{path}{name}.", owner, explicit)

    def claim(name: str, parameter: nn.Parameter, owner: Optimizer | None) -> None:
        if not parameter.requires_grad:
            frozen.append(name)
        elif owner is None:
            orphans.append(name)
        elif parameter not in owners:
            owners[parameter] = (name, _name(owner, optimizers), owner)
        elif owners[parameter][2] is not owner:
            raise ConfigError(
                f"two optimizers own one parameter: {owners[parameter][0]} belongs to {owners[parameter][1]}, "
                f"{name} (the same parameter) to {_name(owner, optimizers)}. Give shared modules one optimizer."
            )

    visit(root, "", None, {})
    if orphans:
        raise ConfigError(
            f"no optimizer owns {_shortened(orphans)}. Bind one, for example\n"
            f"    {type(root).__name__}.optimizer = @Adam()\n"
            "    Adam.lr = 3e-4"
        )
    parameters: dict[str, dict[str, nn.Parameter]] = {name: {} for name in optimizers}
    for parameter, (name, owner_name, _) in owners.items():
        parameters[owner_name][name] = parameter
    for name, optimizer in optimizers.items():
        optimizer.add_parameters(parameters[name])
    return Ownership(optimizers, parameters, tuple(frozen))


def _explicit(algorithm: Algorithm) -> dict[nn.Module, Optimizer]:
    claimed: dict[nn.Module, Optimizer] = {}
    for optimizer, modules in algorithm.optimizers:
        for module in modules:
            if claimed.get(module, optimizer) is not optimizer:
                raise ConfigError(f"two optimizers were added for one {type(module).__name__}")
            claimed[module] = optimizer
    return claimed


def _name(optimizer: Optimizer, known: dict[str, Optimizer]) -> str:
    """A stable name such as `Adam` or `Adam_1`, numbered in the order of the parameters."""
    for name, other in known.items():
        if other is optimizer:
            return name
    base = type(optimizer).__name__
    same = sum(type(other).__name__ == base for other in known.values())
    name = f"{base}_{same}" if same else base
    known[name] = optimizer
    return name


def _shortened(names: Sequence[str], most: int = 6) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest

"""Whether the environments that a config names exist, asked without making one."""

from __future__ import annotations

from alfish.config.problems import Problem
from alfish.config.record import Binding, Config
from alfish.config.values import Reference
from alfish.errors import ConfigError


def unknown_ids(config: Config) -> list[Problem]:
    """A problem for every id that Gymnasium does not have.

    Modules that the config imports, and loaders other than Gymnasium's, may know more; then nothing is said.
    """
    if config.imports or any(_is_own_loader(binding) for binding in config.bindings):
        return []
    named = [binding for binding in config.bindings if _is_option(binding, "env_name")]
    return [problem for binding in named if (problem := _problem(binding)) is not None]


def _is_option(binding: Binding, argument: str) -> bool:
    return binding.name.rpartition(".")[2] == "create_environment" and binding.argument == argument


def _is_own_loader(binding: Binding) -> bool:
    value = binding.value
    is_known = isinstance(value, Reference) and value.name.rpartition(".")[2] in ("load_gymnasium", "load_atari")
    return _is_option(binding, "env_load_fn") and not is_known


def _problem(binding: Binding) -> Problem | None:
    from alfish.environments.loading import find_spec  # Gymnasium takes a quarter of a second

    if not isinstance(binding.value, str) or ":" in binding.value:  # its module would have to be imported
        return None
    try:
        find_spec(binding.value)
    except ConfigError as error:
        prefix = f"create_environment.env_name={binding.value!r}: "
        return Problem((binding.key,), f"{binding.value!r}: {str(error).removeprefix(prefix)}", binding.place)
    return None

"""The command line of `alfish.train`, `alfish.evaluate` and their kin.

Flags live in a `FlagValues` of their own, so that several commands, and tests, can be in one process:

    flags = make_flags("train", "Trains an agent.")
    DEFINE_integer("num_episodes", 10, "Episodes to play.", flag_values=flags)
    command = parse_command_line(argv, flags)
    config = alfish.load_config(command.files, command.bindings)
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from absl import flags as absl_flags

from alfish.config.problems import nearest
from alfish.errors import ConfigError

_BINDING = re.compile(r"[A-Za-z_][\w./]*\s*=")


@dataclass(frozen=True)
class CommandLine:
    """What the command line says.

    Args:
        files: `--gin_file`s, then bare names (`alfish train ppo`).
        bindings: `--gin_param`s, then bare `Name.argument=value`s.
        arguments: bare names, for commands that read no config.
        root_dir: the run folder, None if not given.
        strict: bindings that nothing uses are errors.
        flags: all values, those that the command added included.
    """

    files: tuple[str, ...]
    bindings: tuple[str, ...]
    arguments: tuple[str, ...]
    root_dir: str | None
    strict: bool
    flags: absl_flags.FlagValues


def make_flags(program: str, description: str, reads_config: bool = True) -> absl_flags.FlagValues:
    """The flags that all commands share.

    Args:
        program: the name of the command.
        description: one line for `--help`.
        reads_config: whether it takes a config, or only a run folder.
    """
    flags = absl_flags.FlagValues()  # type: ignore[no-untyped-call]
    flags.set_gnu_getopt(True)
    absl_flags.DEFINE_bool("help", False, f"{program}: {description}", short_name="h", flag_values=flags)
    absl_flags.DEFINE_string("root_dir", None, "Run folder.", flag_values=flags)
    if reads_config:
        absl_flags.DEFINE_multi_string(
            "gin_file", [], "Config, by name or path. Repeatable; later ones win.", flag_values=flags
        )
        absl_flags.DEFINE_multi_string(
            "gin_param", [], "Name.argument=value. Repeatable; wins over files.", flag_values=flags
        )
        absl_flags.DEFINE_alias("gin_bindings", "gin_param", flag_values=flags)
        absl_flags.DEFINE_bool("strict", False, "Refuse bindings that nothing uses.", flag_values=flags)
    return flags


def parse_command_line(argv: Sequence[str], flags: absl_flags.FlagValues) -> CommandLine:
    """Reads the arguments of a command, without its name. `--help` prints and leaves.

    Raises:
        ConfigError: an unknown flag, or a value that does not fit.
    """
    try:
        _, *rest = flags(["alfish", *argv])
    except absl_flags.UnrecognizedFlagError as error:
        close = nearest(error.flagname, list(flags))
        hint = f"Did you mean --{close}?" if close else "--help lists them."
        raise ConfigError(f"--{error.flagname}: no such flag. {hint}") from None
    except (absl_flags.Error, ValueError) as error:
        raise ConfigError(_plain(str(error))) from None
    if flags.help:
        print(help_text(flags))
        sys.exit(0)
    bindings = [argument for argument in rest if _BINDING.match(argument) and not os.path.exists(argument)]
    names = [argument for argument in rest if argument not in bindings]
    reads_config = "gin_file" in flags
    if bindings and not reads_config:
        raise ConfigError(f"{bindings[0]}: this command reads its configuration from the run folder")
    root_dir = flags.root_dir
    if root_dir is not None and (not root_dir.strip() or "\0" in root_dir):
        raise ConfigError("--root_dir is empty; leave it out for runs/<config name>/<time>")
    return CommandLine(
        (*flags.gin_file, *names) if reads_config else (),
        (*flags.gin_param, *bindings) if reads_config else (),
        () if reads_config else tuple(names),
        root_dir,
        bool(reads_config and flags.strict),
        flags,
    )


def _plain(message: str) -> str:
    """absl's message, beginning with the flag it is about."""
    message = message.removeprefix("flag ")
    if message.startswith("Missing value for flag "):
        return f"{message.removeprefix('Missing value for flag ')}: missing value"
    flag, _, reason = message.partition(": ")
    return f"{flag}: expects true or false" if "Non-boolean" in reason else message


def help_text(flags: absl_flags.FlagValues) -> str:
    """What the command does and its flags, with defaults."""
    program, _, description = flags["help"].help.partition(": ")
    takes_config = "gin_file" in flags
    usage = f"alfish {program} [flags]" + (" [config] [Name.argument=value ...]" if takes_config else " [run folder]")
    lines = [f"usage: {usage}", "", description, ""]
    for name in sorted(set(flags) - {"help", "h"}):
        default = flags[name].default
        lines.append(
            f"  --{name}: {flags[name].help}" + ("" if default in (None, [], False) else f" Default: {default}.")
        )
    return "\n".join(lines)

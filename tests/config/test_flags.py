from __future__ import annotations

import pytest
from absl import flags as absl_flags

from alfish.config.flags import CommandLine, help_text, make_flags, parse_command_line
from alfish.errors import ConfigError


def _parse(*argv: str) -> CommandLine:
    return parse_command_line(argv, make_flags("train", "Trains."))


def test_everything_at_once_in_order() -> None:
    command = _parse(
        "--gin_file=a.gin", "--gin_param=A.b=1", "ppo", "--gin_file", "b.gin", "--gin_bindings=A.c='x, y'",
        "A.d=[1, 2]", "--gin_param", "A.e=5", "--strict", "--root_dir=my runs/ü 'q'",
    )  # fmt: skip
    assert command.files == ("a.gin", "b.gin", "ppo")
    assert command.bindings == ("A.b=1", "A.c='x, y'", "A.e=5", "A.d=[1, 2]")
    assert (command.strict, command.root_dir, command.arguments) == (True, "my runs/ü 'q'", ())


def test_nothing() -> None:
    command = _parse()
    assert (command.files, command.bindings, command.root_dir, command.strict) == ((), (), None, False)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--gin_fil=a", "--gin_fil: no such flag. Did you mean --gin_file?"),
        ("--xyzzy", "--xyzzy: no such flag. --help lists them."),
        ("--gin_file", "--gin_file: missing value"),
        ("--strict=maybe", "--strict=maybe: expects true or false"),
        ("--root_dir=", "--root_dir is empty; leave it out for runs/<config name>/<time>"),
        ("--root_dir= ", "--root_dir is empty; leave it out for runs/<config name>/<time>"),
    ],
)
def test_bad_flags_exit_with_2(argument: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _parse(argument)
    assert (str(caught.value), caught.value.exit_code) == (message, 2)


def test_root_dir_may_be_odd() -> None:
    assert _parse("--root_dir=a b/\n'c'").root_dir == "a b/\n'c'"


def test_own_flags_and_no_config() -> None:
    flags = make_flags("evaluate", "Evaluates.", reads_config=False)
    absl_flags.DEFINE_integer("num_episodes", 10, "Episodes.", flag_values=flags)
    command = parse_command_line(["runs/x", "--num_episodes=3"], flags)
    assert (command.flags.num_episodes, command.arguments, command.files) == (3, ("runs/x",), ())
    with pytest.raises(ConfigError, match="num_episodes=three: invalid literal"):
        parse_command_line(["--num_episodes=three"], flags)
    with pytest.raises(ConfigError, match=r"^A.b=1: this command reads its configuration from the run folder$"):
        parse_command_line(["A.b=1"], flags)


def test_commands_do_not_share_flags() -> None:
    assert _parse("--strict").strict
    assert not _parse().strict
    assert "gin_file" not in absl_flags.FLAGS


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        _parse("--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: alfish train [flags] [config] [Name.argument=value ...]\n\nTrains.\n")
    assert "--gin_bindings: Alias for --gin_param." in text
    assert text.strip() == help_text(make_flags("train", "Trains."))

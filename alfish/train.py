"""`python -m alfish.train --gin_file=ppo.gin`: trains an agent."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alfish.config.command import run
from alfish.config.flags import CommandLine, make_flags, parse_command_line
from alfish.errors import ConfigError

if TYPE_CHECKING:
    from alfish.training.results import TrainResult


def main(argv: Sequence[str]) -> int:
    command = parse_command_line(argv, make_flags("train", "Trains an agent."))
    files = command.files or _files_of_run(command.root_dir)
    # Nothing heavy is imported before the configuration is known to be right.
    from alfish.config.loading import load

    config = load(files, command.bindings)
    from alfish.algorithms.trainer_config import TrainerConfig
    from alfish.training.trainer import Trainer

    options = TrainerConfig()
    root_dir = command.root_dir or options.root_dir or _new_folder(config.name)
    result = Trainer(options, root_dir, strict=command.strict).train()
    if options.verbose:
        print(closing_words(result, command, files))
    return 0


def closing_words(result: TrainResult, command: CommandLine, files: Sequence[str]) -> str:
    """The result, where it is, and what to do with it."""
    lines = [""]
    if result.evaluation is not None:
        evaluation = result.evaluation
        lines.append(
            f"final policy: mean return {evaluation.mean_return:.1f} +- {evaluation.std_return:.1f} over "
            f"{len(evaluation.returns)} episodes"
        )
    elif result.mean_return is not None:
        lines.append(f"mean return of the last training episodes: {result.mean_return:.1f}")
    lines.append(
        f"{result.env_steps:,} environment steps, {result.updates:,} updates, {result.episodes:,} episodes in "
        f"{sum(result.seconds.values()):.0f} s (ended by {result.stopped_by})"
    )
    again = " ".join(f"--gin_file={file}" for file in files)
    lines += [
        f"run folder: {result.root_dir}",
        "",
        f"  evaluate:  python -m alfish.evaluate --root_dir={result.root_dir} --num_episodes=100",
        f"  plot:      tensorboard --logdir={result.root_dir}",
        f"  go on:     python -m alfish.train {again} --root_dir={result.root_dir} "
        f"TrainerConfig.num_env_steps={2 * result.env_steps}",
    ]
    return "\n".join(lines)


def _files_of_run(root_dir: str | None) -> tuple[str, ...]:
    """Without a config, a run folder goes on with its own."""
    own = Path(root_dir or "").expanduser() / "config.gin"
    if root_dir and own.is_file():
        return (str(own),)
    raise ConfigError(
        "no config given. Try\n    python -m alfish.train --gin_file=ppo.gin\n`alfish list` shows what there is."
    )


def _new_folder(name: str) -> str:
    return str(Path("runs") / name / time.strftime("%Y-%m-%d_%H-%M-%S"))


if __name__ == "__main__":
    sys.exit(run(main))

"""`python -m alfish.train --gin_file=ppo.gin`: trains an agent."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

from absl import flags as absl_flags

from alfish.config.command import run
from alfish.config.flags import make_flags, parse_command_line
from alfish.errors import ConfigError

if TYPE_CHECKING:
    from alfish.algorithms.trainer_config import TrainerConfig
    from alfish.collective import Collective
    from alfish.training.results import TrainResult


def main(argv: Sequence[str]) -> int:
    flags = make_flags("train", "Trains an agent.")
    absl_flags.DEFINE_string(
        "init_from", None, "Run whose parameters a new run begins with: RUN[@step|@best][:prefix].", flag_values=flags
    )
    command = parse_command_line(argv, flags)
    files = command.files or _files_of_run(command.root_dir)
    # Nothing heavy is imported before the configuration is known to be right.
    from alfish.config.loading import load

    load(files, command.bindings)
    from alfish.training.distributed import ranks_of
    from alfish.training.trainer import Trainer

    ranks = ranks_of(os.environ)
    if ranks.rank > 0:
        return _follow(ranks)
    trainer = Trainer(root_dir=command.root_dir, strict=command.strict, init_from=command.flags.init_from, ranks=ranks)
    try:
        result = trainer.train()
    finally:
        ranks.leave()
    if trainer.config.verbose:
        print(closing_words(result, trainer.config))
    return 128 + Signals[result.stopped_by] if result.stopped_by in Signals.__members__ else 0


def _follow(ranks: Collective) -> int:
    """A rank that only learns along. What all ranks would warn of at the start, rank 0 does."""
    from alfish.training.follower import Follower

    log = logging.getLogger("alfish")
    log.setLevel(logging.ERROR)
    follower = Follower(ranks)
    log.setLevel(logging.WARNING)
    try:
        received = follower.train()
    finally:
        ranks.leave()
    return 0 if received is None else 128 + received


def closing_words(result: TrainResult, options: TrainerConfig) -> str:
    """The result, where it is, and what to do with it."""
    lines, is_supervised = [""], options.ml_type == "sl"
    if result.evaluation is not None:
        evaluation = result.evaluation
        which = f"iteration {evaluation.iteration}"
        if evaluation.iteration == result.iterations:
            which = "final model" if is_supervised else "final policy"
        lines.append(f"{which}: {evaluation.closing_words()}")
    elif result.mean_return is not None:
        lines.append(f"mean return of the last training episodes: {result.mean_return:.1f}")
    done = f"{result.env_steps:,} environment steps, {result.updates:,} updates, {result.episodes:,} episodes"
    if is_supervised:
        done = f"{result.iterations:,} epochs, {result.updates:,} updates"
    lines.append(f"{done} in {sum(result.seconds.values()):.0f} s (ended by {result.stopped_by})")
    if result.env_restarts:
        lines.append(f"environments were restarted {result.env_restarts} time(s)")
    folder = shlex.quote(result.root_dir)
    lines += [f"run folder: {result.root_dir}", ""]
    if is_supervised:
        lines += [f"  evaluate:  python -m alfish.evaluate --root_dir={folder}"]
    else:
        lines += [
            f"  watch:     python -m alfish.play --root_dir={folder}",
            f"  evaluate:  python -m alfish.evaluate --root_dir={folder} --num_episodes=100",
        ]
    lines += [
        f"  plot:      tensorboard --logdir={folder}",
        f"  go on:     python -m alfish.train --root_dir={folder} {' '.join(_more(result, options))}".rstrip(),
    ]
    return "\n".join(lines)


def _more(result: TrainResult, options: TrainerConfig) -> list[str]:
    """The bindings that double the budget, if it is used up."""
    if result.stopped_by != "budget":
        return []
    limits = ("num_epochs",) if options.num_epochs is not None else ("num_iterations", "num_env_steps")
    given = {name: getattr(options, name) for name in limits}
    return [f"TrainerConfig.{name}={2 * value}" for name, value in given.items() if value]


def _files_of_run(root_dir: str | None) -> tuple[str, ...]:
    """Without a config, a run folder goes on with its own."""
    own = Path(root_dir or "").expanduser() / "config.gin"
    if root_dir and own.is_file():
        return (str(own),)
    problem = "no config given"
    if root_dir:
        lacks = "has no config.gin" if own.parent.is_dir() else "does not exist"
        problem = f"no config given, and {root_dir} {lacks}: there is no run to go on with"
    raise ConfigError(
        f"{problem}. Try\n    python -m alfish.train --gin_file=ppo.gin\n`alfish list` shows what there is."
    )


if __name__ == "__main__":
    sys.exit(run(main))

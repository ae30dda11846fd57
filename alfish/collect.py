"""`alfish collect RUN DATASET --num_episodes=N`: records episodes of a trained agent, for offline learning.

The dataset folder goes into `TrainerConfig.offline_buffer_dir` of another run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from alfish.config.command import run
from alfish.config.flags import make_flags, parse_command_line
from alfish.errors import ConfigError

_USAGE = "usage: alfish collect [--num_episodes=N | --num_steps=N] [--random=P] RUN DATASET"


def main(argv: Sequence[str]) -> int:
    flags = make_flags("collect", "Records episodes of a trained agent in a dataset folder.", reads_config=False)
    absl_flags.DEFINE_integer(
        "num_episodes", None, "Episodes to record; 100 if nothing is said.", lower_bound=1, flag_values=flags
    )
    absl_flags.DEFINE_integer(
        "num_steps", None, "Steps to record, instead of episodes.", lower_bound=1, flag_values=flags
    )
    absl_flags.DEFINE_float(
        "random",
        0.0,
        "Chance of a uniform random action at every step. With 1, RUN may be a config.",
        lower_bound=0.0,
        upper_bound=1.0,
        flag_values=flags,
    )
    absl_flags.DEFINE_string("checkpoint", "latest", "'latest', 'best', or an iteration.", flag_values=flags)
    absl_flags.DEFINE_integer("num_environments", None, "To play in.", lower_bound=1, flag_values=flags)
    absl_flags.DEFINE_integer("seed", None, "Of the episodes; the run's own if not given.", flag_values=flags)
    command = parse_command_line(argv, flags)
    names = [command.root_dir, *command.arguments] if command.root_dir else list(command.arguments)
    if len(names) != 2:
        raise ConfigError(_USAGE)
    if flags.num_episodes and flags.num_steps:
        raise ConfigError("--num_episodes and --num_steps: give one of them")

    from alfish.training.recording import Amount, collect_dataset

    source, out = names[0], Path(names[1])
    episodes = None if flags.num_steps else flags.num_episodes or 100
    amount = Amount(episodes, flags.num_steps)
    tape = collect_dataset(source, out, amount, flags.random, flags.checkpoint, flags.num_environments, flags.seed)
    print(
        f"{out}: {tape.num_steps:,} steps of {tape.num_episodes:,} episodes, mean return "
        f"{tape.reward.sum().item() / tape.num_episodes:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(run(main))

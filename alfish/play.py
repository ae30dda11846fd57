"""`python -m alfish.play --root_dir=R`: watch a trained agent.

Needs the run folder and nothing else. Opens a window, or records a film with `--record_file=play.mp4`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from absl import flags as absl_flags

from alfish.config.command import run
from alfish.config.flags import make_flags, parse_command_line
from alfish.errors import ConfigError

if TYPE_CHECKING:
    from alfish.playing.player import PlayResult

_EPISODES = 3


def main(argv: Sequence[str]) -> int:
    flags = _make_flags()
    command = parse_command_line(argv, flags)
    folders = [command.root_dir, *command.arguments] if command.root_dir else command.arguments
    if not folders:
        raise ConfigError("--root_dir is missing: the run folder to play from, as alfish.train printed it")
    if len(folders) > 1:
        raise ConfigError(f"one run folder at a time, not {' and '.join(folders)}")

    from alfish.playing.player import PlayOptions, play_run

    count = flags.num_parallel_environments
    options = PlayOptions(
        num_episodes=flags.num_episodes or max(_EPISODES, count),
        num_environments=count,
        checkpoint=flags.checkpoint,
        seed=flags.seed,
        epsilon_greedy=flags.epsilon_greedy,
        render=flags.render,
        record_file=None if flags.record_file is None else Path(flags.record_file),
        fps=flags.fps,
        overlay=flags.overlay,
    )
    result = play_run(Path(folders[0]), options, lambda words: print(words, flush=True))
    if len(result.returns) > 1:
        print(_summary(result))
    if result.num_frames:
        print(f"{result.num_frames:,} frames in {flags.record_file}")
    return 0


def _make_flags() -> absl_flags.FlagValues:
    flags = make_flags("play", "Shows how a trained agent plays, from its run folder alone.", reads_config=False)
    integer, number, text, boolean = (
        absl_flags.DEFINE_integer,
        absl_flags.DEFINE_float,
        absl_flags.DEFINE_string,
        absl_flags.DEFINE_bool,
    )
    words = f"Episodes to play; {_EPISODES} if not given, or one in each environment."
    integer("num_episodes", None, words, lower_bound=1, flag_values=flags)
    words = "To play in at once, without pictures."
    integer("num_parallel_environments", 1, words, lower_bound=1, flag_values=flags)
    text("checkpoint", "latest", "'latest', 'best', or an iteration.", flag_values=flags)
    integer("seed", None, "Of the episodes; the run's own if not given.", flag_values=flags)
    words = "Chance of a sampled action in place of the best one; the run's own if not given."
    number("epsilon_greedy", None, words, lower_bound=0.0, upper_bound=1.0, flag_values=flags)
    text("record_file", None, "Film to write instead of opening a window: .mp4 or .gif.", flag_values=flags)
    number("fps", 30.0, "Pictures per second.", lower_bound=0.1, upper_bound=1000.0, flag_values=flags)
    boolean("overlay", True, "Draw reward, return and what the algorithm thinks beside the picture.", flag_values=flags)
    boolean("render", True, "--norender: only the returns.", flag_values=flags)
    return flags


def _summary(result: PlayResult) -> str:
    returns, lengths = result.returns, result.lengths
    return (
        f"mean return {fmean(returns):.2f} +- {pstdev(returns):.2f} (min {min(returns):.2f}, max {max(returns):.2f}) "
        f"over {len(returns)} episodes, mean length {fmean(lengths):.1f} (min {min(lengths)}, max {max(lengths)}), "
        f"checkpoint {result.checkpoint}"
    )


if __name__ == "__main__":
    sys.exit(run(main))

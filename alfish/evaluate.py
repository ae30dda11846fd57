"""`python -m alfish.evaluate --root_dir=R --num_episodes=N`: how good is a trained agent.

Needs the run folder and nothing else. With `--json` the last line of the output is one JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from alfish.config.command import run
from alfish.config.flags import make_flags, parse_command_line
from alfish.errors import ConfigError


def main(argv: Sequence[str]) -> int:
    flags = make_flags("evaluate", "Evaluates a trained agent, from its run folder alone.", reads_config=False)
    absl_flags.DEFINE_integer("num_episodes", 100, "Episodes to play.", lower_bound=1, flag_values=flags)
    absl_flags.DEFINE_integer("num_environments", None, "To play them in.", lower_bound=1, flag_values=flags)
    absl_flags.DEFINE_string("checkpoint", "latest", "'latest', 'best', or an iteration.", flag_values=flags)
    absl_flags.DEFINE_integer("seed", None, "Of the episodes; the run's own if not given.", flag_values=flags)
    absl_flags.DEFINE_bool("json", False, "End with one JSON object.", flag_values=flags)
    command = parse_command_line(argv, flags)
    folders = [command.root_dir, *command.arguments] if command.root_dir else command.arguments
    if not folders:
        raise ConfigError("--root_dir is missing: the run folder to evaluate, as alfish.train printed it")
    if len(folders) > 1:
        raise ConfigError(f"one run folder at a time, not {' and '.join(folders)}")

    from alfish.training.evaluation import is_supervised

    folder = Path(folders[0])
    result, words = _on_data(folder, flags) if is_supervised(folder) else _in_environments(folder, flags)
    print(words)
    if flags.json:
        print(json.dumps(result))
    return 0


def _in_environments(folder: Path, flags: absl_flags.FlagValues) -> tuple[dict[str, Any], str]:
    from alfish.training.evaluation import evaluate_run

    result = evaluate_run(folder, flags.num_episodes, flags.num_environments, flags.checkpoint, flags.seed)
    words = (
        f"mean return {result['mean_return']:.2f} +- {result['std_return']:.2f} over {result['episodes']} episodes, "
        f"mean length {result['mean_length']:.1f} (checkpoint {result['checkpoint']}, "
        f"{result['env_steps']:,} environment steps)"
    )
    return result, words


def _on_data(folder: Path, flags: absl_flags.FlagValues) -> tuple[dict[str, Any], str]:
    from alfish.training.evaluation import evaluate_on_data
    from alfish.training.results import metrics_text

    for name in ("num_episodes", "num_environments", "seed"):
        if flags[name].present:
            raise ConfigError(
                f"--{name}: {folder} learned from data (TrainerConfig.ml_type = 'sl') and is evaluated on its test "
                "data; there are no episodes. Leave it out"
            )
    result = evaluate_on_data(folder, flags.checkpoint)
    metrics = {name: value for name, value in result.items() if name != "checkpoint"}
    return result, f"{metrics_text(metrics)} (checkpoint {result['checkpoint']})"


if __name__ == "__main__":
    sys.exit(run(main))

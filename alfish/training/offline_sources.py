"""What `TrainerConfig.offline_buffer_dir` names, as one tape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from alfish import nest
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems, Problem
from alfish.environments.environment import Environment
from alfish.errors import CheckpointError, ConfigError
from alfish.replay.tape import Tape, join, newest_of, tapes_of_replay
from alfish.specs import BoundedTensorSpec
from alfish.training.checkpoint import REPLAY, Checkpoint, CheckpointFolder
from alfish.training.dataset import is_dataset, plain_spec, read_dataset
from alfish.training.minari_source import read_minari
from alfish.training.run_folder import RunFolder
from alfish.types import Nest

MINARI = "minari:"
_KINDS = "a run folder, a checkpoint with its replay, a dataset folder of `alfish collect`, or minari:<dataset id>"


@dataclass(frozen=True)
class OfflineData:
    """Recorded data of one or several sources."""

    tape: Tape
    words: tuple[str, ...]  # where they come from, a line for each source


@dataclass(frozen=True)
class _Recording:
    """What one source holds."""

    tapes: list[Tape]  # of one environment each
    kind: str
    environment: str | None = None  # recorded in; None: unknown
    action_spec: dict[str, Any] | None = None  # as `plain_spec` writes it; None: unknown


def load_offline(config: TrainerConfig, env: Environment) -> OfflineData | None:
    """All that `offline_buffer_dir` names, one source after the other; None when it names nothing.

    Raises:
        ConfigProblems: a source is missing, damaged, empty, or not of such an environment.
    """
    given = config.offline_buffer_dir
    if not given:
        return None
    tapes, words, problems = [], [], []
    for source in [given] if isinstance(given, str) else given:
        try:
            tape, kind = _load(source, env, config.offline_buffer_length)
        except (ConfigError, CheckpointError) as error:
            message = str(error) if source in str(error) else f"{source}: {error}"
            problems.append(Problem(("TrainerConfig.offline_buffer_dir",), message))
            continue
        tapes.append(tape)
        words.append(f"offline data: {source} ({kind}), {tape.num_steps:,} steps of {tape.num_episodes:,} episodes")
    if problems:
        raise ConfigProblems(problems)
    joined = join(tapes)
    assert joined is not None  # a source without steps is a problem
    return OfflineData(joined, tuple(words))


def _load(source: str, env: Environment, most: int | None) -> tuple[Tape, str]:
    recording = _read(source)
    tapes = recording.tapes if most is None else newest_of(recording.tapes, most)
    tape = join(tapes)
    if tape is None:
        raise ConfigError(f"{source} holds no steps")
    differences = [*_differences(tape, env), *_other_bounds(recording.action_spec, env.action_spec)]
    if differences:
        lines = "".join(f"\n    {line}" for line in differences)
        origin = f", recorded in {recording.environment}," if recording.environment else ""
        raise ConfigError(
            f"{source}{origin} does not fit {env.name}:{lines}\n"
            "Set create_environment.env_name and its wrappers to what the data were recorded in"
        )
    return tape, recording.kind


def _read(source: str) -> _Recording:
    if source.startswith(MINARI):
        dataset = read_minari(source.removeprefix(MINARI))
        return _Recording([dataset.tape], "Minari", dataset.environment, dataset.action_spec)
    path = Path(source).expanduser()
    if not path.is_dir():
        raise ConfigError(f"{source} {'is no folder' if path.exists() else 'does not exist'}. It takes {_KINDS}")
    if is_dataset(path):
        dataset = read_dataset(path)
        return _Recording([dataset.tape], "dataset", dataset.environment, dataset.action_spec)
    if any((path / name).exists() for name in ("checkpoints", "config.gin", "run.json")):
        folder = RunFolder(path)
        checkpoint = _newest_with_replay(folder.checkpoints)
        environment = folder.read_run().get("environment")
        kind = f"replay of iteration {checkpoint.iteration:,}"
        return _Recording(tapes_of_replay(checkpoint.load(REPLAY)), kind, environment)
    if (path / "manifest.json").is_file():
        checkpoint = Checkpoint(path, 0)
        if not checkpoint.has(REPLAY):
            raise ConfigError(f"{source} has no {REPLAY}.pt: only the newest checkpoint of a run carries its replay")
        return _Recording(tapes_of_replay(checkpoint.load(REPLAY)), "replay of a checkpoint")
    raise ConfigError(f"{source} holds no recorded data. It takes {_KINDS}")


def _newest_with_replay(folder: CheckpointFolder) -> Checkpoint:
    checkpoints = folder.all()
    for checkpoint in reversed(checkpoints):
        if checkpoint.has(REPLAY):
            return checkpoint
    has = f"has {len(checkpoints)} checkpoint(s), none with its replay" if checkpoints else "has no checkpoint yet"
    raise ConfigError(
        f"{folder.path} {has}. Off-policy runs save their replay, up to 2 GiB or with "
        "ReplayBuffer.enable_checkpoint = True; `alfish collect` records the episodes of any run"
    )


def _differences(tape: Tape, env: Environment) -> Iterator[str]:
    """What of the data is not as the environment has it."""
    for what, spec, data in (
        ("observation", env.observation_spec, tape.observation),
        ("action", env.action_spec, tape.action),
        ("reward", env.reward_spec, tape.reward),
    ):
        yield from _other_leaves(what, nest.named_leaves(spec), nest.named_leaves(data))


def _other_leaves(what: str, here: dict[str, Any], there: dict[str, torch.Tensor]) -> Iterator[str]:
    for path in here | there:
        name = f"{what}.{path}" if path else what
        if path not in here or path not in there:
            yield f"{name}: only in the {'data' if path in there else 'environment'}"
            continue
        spec, leaf = here[path], there[path]
        if (leaf.shape[1:], leaf.dtype) != (spec.shape, spec.dtype):
            in_data, wanted = _look(leaf.dtype, leaf.shape[1:]), _look(spec.dtype, spec.shape)
            yield f"{name}: {in_data} in the data, {wanted} in the environment"
        elif what == "action" and spec.is_discrete and isinstance(spec, BoundedTensorSpec):
            low, high = torch.tensor(spec.minimum), torch.tensor(spec.maximum)
            if (leaf < low).any() or (leaf > high).any():
                yield (
                    f"{name}: from {leaf.min()} to {leaf.max()} in the data, from {spec.minimum.min()} to "
                    f"{spec.maximum.max()} in the environment"
                )
        elif leaf.is_floating_point() and not leaf.isfinite().all():
            yield f"{name}: {int((~leaf.isfinite()).sum())} numbers in the data are not finite"


def _other_bounds(recorded: dict[str, Any] | None, spec: Nest) -> Iterator[str]:
    """Continuous actions of another range would be taken for others without a word."""
    if not recorded:
        return
    for path, facts in plain_spec(spec).items():
        before = recorded.get(path, {})
        if facts["dtype"] == "float32" and before.get("shape") == facts["shape"]:
            bounds = [[each.get(end) for end in ("minimum", "maximum")] for each in (before, facts)]
            if bounds[0] != bounds[1]:
                name = f"action.{path}" if path else "action"
                yield f"{name}: bounds {bounds[0]} in the data, {bounds[1]} in the environment"


def _look(dtype: torch.dtype, shape: Any) -> str:
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}"

"""A dataset folder holds recorded experience, whole or not at all, and says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.environments.create import create_environment
from alfish.errors import CheckpointError, ConfigError, StorageFault
from alfish.training.dataset import is_dataset, plain_spec, read_dataset, write_dataset
from tests.algorithms.recorded import POLICY, random_tape


def write(path: Path, **env_kwargs: Any) -> Any:
    tape = random_tape(num_steps=20, **env_kwargs)
    with create_environment(POLICY, env_kwargs=env_kwargs or None) as env:
        write_dataset(path, tape, env, {"source": "chance"})
    return tape


def test_what_was_written_is_read(tmp_path: Path) -> None:
    tape = write(tmp_path / "data", action_type="continuous")
    dataset = read_dataset(tmp_path / "data")
    for one, other in zip(nest.leaves(tape), nest.leaves(dataset.tape), strict=True):
        assert torch.equal(one, other)
    assert dataset.environment == POLICY
    assert dataset.action_spec == {"": {"shape": [1], "dtype": "float32", "minimum": [0.0], "maximum": [1.0]}}


def test_the_manifest_says_what_it_is(tmp_path: Path) -> None:
    tape = write(tmp_path / "data")
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert (manifest["kind"], manifest["version"], manifest["source"]) == ("alfish dataset", 1, "chance")
    assert (manifest["num_steps"], manifest["num_episodes"]) == (tape.num_steps, tape.num_episodes) == (20, 4)
    assert manifest["observation_spec"][""]["shape"] == [1]
    assert set(manifest["files"]["steps.pt"]) == {"size", "sha256"}


def test_nothing_else_is_left_and_nothing_is_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    with pytest.raises(ConfigError, match="exists already; choose another folder"):
        write(tmp_path / "data")
    (tmp_path / "file").touch()
    with pytest.raises(StorageFault, match="cannot write the dataset"):
        write(tmp_path / "file" / "data")


def test_damage_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "data")
    steps = tmp_path / "data" / "steps.pt"
    content = bytearray(steps.read_bytes())
    content[len(content) // 2] ^= 1
    steps.write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum differs"):
        read_dataset(tmp_path / "data")


def test_code_in_a_dataset_is_not_run(tmp_path: Path) -> None:
    write(tmp_path / "data")
    steps, manifest = tmp_path / "data" / "steps.pt", tmp_path / "data" / "manifest.json"
    torch.save({"evil": Path("x")}, steps)
    facts = json.loads(manifest.read_text())
    from alfish.training.checkpoint import _sha256

    facts["files"]["steps.pt"] = {"size": steps.stat().st_size, "sha256": _sha256(steps)}
    manifest.write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match="cannot be loaded safely"):
        read_dataset(tmp_path / "data")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "data")
    manifest = tmp_path / "data" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CheckpointError, match="version 2; this alfish reads 1"):
        read_dataset(tmp_path / "data")


def test_other_folders_are_none(tmp_path: Path) -> None:
    assert not is_dataset(tmp_path)
    (tmp_path / "manifest.json").write_text('{"files": {}}')
    assert not is_dataset(tmp_path)


def test_specs_by_leaf() -> None:
    with create_environment("alfish/MixedPolicyUnittest-v0") as env:
        assert plain_spec(env.action_spec) == {
            "0": {"shape": [], "dtype": "int64", "minimum": 0, "maximum": 1},
            "1": {"shape": [1], "dtype": "float32", "minimum": [0.0], "maximum": [1.0]},
        }

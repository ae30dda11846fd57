"""Experience keeps its structure on the way through the rings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish import nest
from alfish.errors import CheckpointError, ConfigError
from alfish.replay import memory
from alfish.replay.experience_storage import ExperienceStorage
from alfish.specs import TensorSpec
from alfish.types import Experience, TimeStep, record, replace
from tests.replay.data import experience

CPU = torch.device("cpu")
ROWS = np.arange(4)[:, None] + 6 * np.arange(3)


def stored(data: Experience) -> ExperienceStorage:
    storage = ExperienceStorage(3, 6)
    storage.write(data, 0)
    return storage


def test_everything_comes_back_in_its_structure() -> None:
    data = experience(0, 3)
    back = stored(data).gather(ROWS, CPU)
    assert nest.same_structure(back, data)
    for left, right in zip(nest.leaves(back), nest.leaves(data), strict=True):
        assert torch.equal(left, right)


def test_a_part_is_read_by_its_path() -> None:
    storage = stored(experience(0, 3))
    rows = np.array([[0, 7], [3, 14]])
    assert storage.read("observation.name", rows).tolist() == [[0, 1001], [3, 2002]]
    assert set(storage.read("observation", rows)) == {"name", "pair"}
    assert storage.read("observation.pair", rows).shape == (2, 2, 2)


def test_reading_before_writing_says_that_it_is_empty() -> None:
    with pytest.raises(ConfigError, match="replay is empty"):
        ExperienceStorage(3, 6).gather(ROWS, CPU)


def test_it_refuses_what_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda root: 10**9)
    frame, scalar = TensorSpec((84, 84), torch.uint8), TensorSpec(())
    spec = Experience(TimeStep(scalar, scalar, scalar, frame, (), scalar), scalar)
    storage = ExperienceStorage(1, 10**10)
    with pytest.raises(ConfigError, match=r"replay_buffer_length = 10000000000: .* replay_buffer_length = 120000 fits"):
        storage.allocate(spec)
    with pytest.raises(ConfigError, match="replay_buffer_length = 120000 fits"):
        storage.needed(spec)
    assert storage.nbytes == 0


def test_what_will_be_needed_is_what_is_taken() -> None:
    frame, scalar = TensorSpec((84, 84), torch.uint8), TensorSpec(())
    spec = Experience(TimeStep(scalar, scalar, scalar, frame, (), scalar), scalar)
    storage = ExperienceStorage(3, 6)
    needed = storage.needed(spec)
    assert storage.nbytes == 0
    storage.allocate(spec)
    assert storage.nbytes == needed == 3 * 6 * (84 * 84 + 5 * 4)


def test_a_loaded_storage_gives_plain_structures_until_the_first_write_tells_their_records() -> None:
    @record
    class Local:
        mean: torch.Tensor

    data = replace(experience(0, 3), rollout_info=Local(torch.rand(3, 3)))
    state = stored(data).state_dict(np.arange(18))
    loaded = ExperienceStorage(3, 6)
    loaded.load_state_dict(state, torch.ones(18, dtype=torch.bool), np.arange(18))
    assert torch.equal(loaded.gather(ROWS, CPU).rollout_info["mean"], data.rollout_info.mean)
    loaded.write(data, 0)
    assert torch.equal(loaded.gather(ROWS, CPU).rollout_info.mean, data.rollout_info.mean)


def test_rows_of_another_structure_are_refused_by_name() -> None:
    data = experience(0, 3)
    state = stored(data).state_dict(np.arange(18))
    other = stored(replace(data, rollout_info={"value": torch.zeros(3, 3)}))
    with pytest.raises(CheckpointError, match=r"only saved: \['1\.1\.0'\], only here: \['1\.1\.value'\]"):
        other.load_state_dict(state, torch.ones(18, dtype=torch.bool), np.arange(18))

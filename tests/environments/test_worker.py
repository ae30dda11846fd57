from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import alfish.environments
from alfish.config.scan import scan
from alfish.environments.episodes import SeededEpisodes
from alfish.environments.shared_rows import End, Layout, SharedRows
from alfish.environments.worker import EnvironmentWorker
from alfish.errors import EnvironmentFault
from tests.environments.scripted import MID, TERMINATED, TRUNCATED, BrokenEnv, ScriptedEnv

ROOT = Path(next(iter(alfish.environments.__path__))).parent


def test_what_single_environments_are_built_from_imports_no_torch() -> None:
    configurable = {entry.module for entry in scan((ROOT,)) if entry.module.startswith("alfish.environments.")}
    modules = sorted(configurable - {"alfish.environments.create"})
    assert len(modules) >= 5
    code = f"import sys, alfish.environments.worker, {', '.join(modules)}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert done.stdout.strip() == "False"


def in_row_1(env: gym.Env[Any, Any], info_keys: tuple[str, ...] = ()) -> tuple[EnvironmentWorker, SharedRows]:
    floats, integers = np.dtype(np.float32), np.dtype(np.int64)
    rows = SharedRows(Layout(2, (((2,), floats),), (((), integers),), (), len(info_keys)))
    return EnvironmentWorker(SeededEpisodes(env, "test", 1, info_keys), rows, 1), rows


def test_actions_are_taken_from_the_row_and_results_left_there() -> None:
    env = ScriptedEnv([MID, TERMINATED])
    worker, rows = in_row_1(env, info_keys=("steps", "absent"))
    worker.reset(5, 3, 0)
    assert (rows.observations[0][1].tolist(), rows.rewards[1], rows.ends[1]) == ([0, 0], 0, End.NONE)
    assert np.isnan(rows.infos[1]).all()
    rows.actions[0][1] = 4
    worker.step()
    assert (rows.observations[0][1].tolist(), rows.rewards[1], rows.ends[1]) == ([0, 1], 1, End.NONE)
    assert rows.infos[1, 0] == 1
    assert np.isnan(rows.infos[1, 1])
    worker.step()
    assert (rows.rewards[1], rows.ends[1]) == (2, End.TERMINATED)
    worker.reset(5, 3, 1)
    assert (rows.observations[0][1].tolist(), rows.rewards[1], rows.ends[1]) == ([1, 0], 0, End.NONE)
    assert env.actions == [4, 4]
    assert not rows.observations[0][0].any()  # the other row is another's


def test_a_time_limit_is_not_a_real_end() -> None:
    worker, rows = in_row_1(ScriptedEnv([TRUNCATED]))
    worker.reset(5, 3, 0)
    worker.step()
    assert rows.ends[1] == End.TRUNCATED


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("raise", "raised LocalTrouble: ('the wheel', 'came off')"),
        ("shape", "returned an observation that does not fit: the shape is (3,), its space has (2,)"),
        ("reward", "returned a reward of shape (2,), expected ()"),
        ("nan", "returned an observation that is not finite: [nan, nan]"),
        ("infinite reward", "returned a reward that is not finite: inf"),
    ],
)
def test_faults_name_environment_step_and_action(how: str, text: str) -> None:
    worker, rows = in_row_1(BrokenEnv(how))
    worker.reset(5, 3, 7)
    rows.actions[0][1] = 2
    worker.step()
    worker.step()
    with pytest.raises(EnvironmentFault) as caught:
        worker.step()
    assert str(caught.value).startswith(f"test: environment 3 {text}")
    assert "\n  in step 3 of episode 7, action 2" in str(caught.value)

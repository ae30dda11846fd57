from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import alfish.environments
from alfish.config.scan import scan
from alfish.environments.loading import load_gymnasium
from alfish.environments.worker import Recipe, WorkerRecipe
from alfish.environments.wrappers import MaskVelocity, TimeLimit

ROOT = Path(next(iter(alfish.environments.__path__))).parent


def test_what_single_environments_are_built_from_imports_no_torch() -> None:
    configurable = {entry.module for entry in scan((ROOT,)) if entry.module.startswith("alfish.environments.")}
    modules = sorted(configurable - {"alfish.environments.create"})
    assert len(modules) >= 5
    code = f"import sys, alfish.environments.worker, {', '.join(modules)}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert done.stdout.strip() == "False"


def test_wrappers_are_applied_in_order() -> None:
    recipe = Recipe("CartPole-v1", load_gymnasium, {"max_episode_steps": 9}, (MaskVelocity, TimeLimit), ("score",))
    env = recipe.build(4)
    assert str(env) == "<SeededEpisodes<TimeLimit<MaskVelocity<TimeLimit<CartPoleEnv<CartPole-v1>>>>>>"
    assert (env.name, env.index, env.info_keys) == ("CartPole-v1", 4, ("score",))


class Installed:
    def __init__(self) -> None:
        self.count = 0

    def install(self) -> None:
        self.count += 1


def test_the_config_is_installed_in_workers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    carried: Any = Installed()
    signals: list[Any] = []
    monkeypatch.setattr("signal.signal", lambda *arguments: signals.append(arguments))
    here = WorkerRecipe(Recipe("CartPole-v1", load_gymnasium), 0, carried, ())
    here()
    assert (carried.count, len(signals)) == (0, 0)
    elsewhere = WorkerRecipe(here.recipe, 0, carried, (), parent=os.getpid() + 1)
    elsewhere()
    assert (carried.count, len(signals)) == (1, 1)


def test_a_recipe_can_be_pickled() -> None:
    recipe = WorkerRecipe(Recipe("CartPole-v1", load_gymnasium, {}, (MaskVelocity,)), 2, None, ("eval",))
    assert pickle.loads(pickle.dumps(recipe)) == recipe  # noqa: S301

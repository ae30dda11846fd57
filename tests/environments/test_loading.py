from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest

from alfish.environments import loading
from alfish.environments.loading import find_spec, load_gymnasium
from alfish.errors import ConfigError


def message(env_name: str, **options: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_gymnasium(env_name, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_time_limit_as_registered_as_given_and_none() -> None:
    assert load_gymnasium("CartPole-v1").get_wrapper_attr("_max_episode_steps") == 500
    assert load_gymnasium("CartPole-v1", max_episode_steps=7).get_wrapper_attr("_max_episode_steps") == 7
    unlimited = load_gymnasium("CartPole-v1", max_episode_steps=-1)
    assert unlimited is unlimited.unwrapped


def test_constructor_arguments() -> None:
    env = load_gymnasium("Pendulum-v1", env_kwargs={"g": 3.0}, render_mode="rgb_array")
    assert env.get_wrapper_attr("g") == 3.0
    assert env.render_mode == "rgb_array"
    text = message("Pendulum-v1", env_kwargs={"gee": 3.0})
    assert "Pendulum-v1 cannot be made with" in text
    assert "unexpected keyword argument 'gee'" in text


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole-v7", "CartPole-v1"),
        ("alfish/PolicyUnitest-v0", "alfish/PolicyUnittest-v0"),
    ],
)
def test_an_unknown_id_is_answered_with_near_ones(wrong: str, right: str) -> None:
    text = message(wrong)
    assert f"create_environment.env_name='{wrong}': no such environment. Did you mean " in text
    assert right in text


def test_an_id_near_to_nothing() -> None:
    assert "pprint_registry" in message("Qqqqqqqqq-v0")


def test_a_module_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_grids.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('MyGrid-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_gymnasium("my_grids:MyGrid-v0").get_wrapper_attr("_max_episode_steps") == 3
    assert "Did you mean MyGrid-v0" in message("my_grids:MyGird-v0")
    del gym.registry["MyGrid-v0"]
    text = message("my_gridz:MyGrid-v0")
    assert "cannot import 'my_gridz'" in text
    assert "PYTHONPATH" in text


@pytest.mark.parametrize(
    ("env_name", "module", "extra"),
    [("HalfCheetah-v5", "mujoco", "mujoco"), ("LunarLander-v3", "Box2D", "box2d"), ("ALE/Pong-v5", "ale_py", "atari")],
)
def test_a_missing_package_is_named_with_its_extra(
    env_name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.mujoco", "gymnasium.envs.box2d"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(loading, "_is_missing", lambda name: name == extra)
    for env_id in [env_id for env_id in gym.registry if env_id.startswith("ALE/")]:
        monkeypatch.delitem(gym.registry, env_id)
    assert f"pip install 'alfish[{extra}]'" in message(env_name)


def test_mujoco_loads_without_noise(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    monkeypatch.chdir(tmp_path)
    env = load_gymnasium("HalfCheetah-v5")
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[0].shape == (17,)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_find_spec_resolves_an_id_without_version() -> None:
    with pytest.warns(UserWarning, match="latest versioned environment"):
        assert find_spec("CartPole").id == "CartPole-v1"

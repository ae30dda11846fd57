from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pygame
import pytest
import torch

from alfish import nest
from alfish.algorithms.explanation import Explanation
from alfish.environments.create import create_environment
from alfish.errors import ConfigError, EnvironmentFault
from alfish.playing import player
from alfish.playing.panel import Panel
from alfish.playing.player import Moment, Played, PlayOptions, play_run
from alfish.summary.reward_reduction import RewardReduction
from alfish.training.evaluation import evaluate_run
from tests.trained_run import CARTPOLE, train_run

FILM = PlayOptions(num_episodes=2, record_file=Path("a.gif"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, Panel]]:
    """What would be on the screen."""
    pictures: list[tuple[np.ndarray, Panel]] = []
    monkeypatch.setattr(player.Screen, "show", lambda screen, frame, panel: pictures.append((frame, panel)))
    return pictures


def play(trained: Path, options: PlayOptions = FILM):
    said: list[str] = []
    return play_run(trained, options, said.append), said


def test_the_episodes_are_those_of_an_evaluation(trained, shown):
    result, said = play(trained)
    evaluated = evaluate_run(trained, num_episodes=2, num_environments=1)
    assert sum(result.returns) / 2 == evaluated["mean_return"]
    assert result.checkpoint == evaluated["checkpoint"] == 4
    assert said == [
        f"episode {number}: return {total:.2f}, length {length}"
        for number, (total, length) in enumerate(zip(result.returns, result.lengths, strict=True), start=1)
    ]


def test_the_panel_counts_steps_and_rewards(trained, shown):
    result, _ = play(trained)
    panels = [panel for _, panel in shown]
    first = panels[: result.lengths[0] + 1]
    assert [dict(panel.numbers)["step"] for panel in first] == [str(step) for step in range(result.lengths[0] + 1)]
    assert dict(first[0].numbers)["return"] == "0.00"
    assert dict(first[-1].numbers)["return"] == f"{result.returns[0]:.2f}"
    assert dict(panels[len(first)].numbers)["step"] == "0"  # the second episode begins
    assert all("value" in dict(panel.numbers) for panel in panels)
    assert all(panel.charts[0].title == "probability of action" for panel in panels)


def test_the_seed_decides_about_the_episodes(trained, shown):
    def first_pictures(seed: int) -> np.ndarray:
        shown.clear()
        play(trained, replace(FILM, num_episodes=1, seed=seed))
        return np.stack([frame for frame, _ in shown[:5]])

    assert np.array_equal(first_pictures(1), first_pictures(1))
    assert not np.array_equal(first_pictures(1), first_pictures(2))


def test_pictures_are_those_of_the_environment_whatever_the_agent_sees(tmp_path, shown):
    wrapped = CARTPOLE + "create_environment.wrappers = [@MaskVelocity]\nTrainerConfig.random_seed = 1\n"
    folder = train_run(tmp_path, wrapped)
    play(folder, replace(FILM, num_episodes=1))
    assert shown[0][0].shape == (400, 600, 3)


def test_memory_begins_anew_with_every_episode(tmp_path, shown, monkeypatch):
    """And what stands between environment and networks, here stacked frames, is there in play as well."""
    text = CARTPOLE.replace("ActorDistributionNetwork.fc_layer_params", "ActorDistributionRnnNetwork.lstm_hidden_size")
    options = (
        "ActorCriticAlgorithm.actor_network_ctor = @ActorDistributionRnnNetwork\n"
        "TrainerConfig.data_transformer_ctor = @FrameStacker\n"
    )
    folder = train_run(tmp_path, text.replace("PPOAlgorithm", "ActorCriticAlgorithm") + options)
    memories: list[tuple[bool, bool]] = []
    original = player.RestoredRun.build_algorithm

    def build(run, env):
        algorithm = original(run, env)
        predict = algorithm.predict_step

        def predict_step(time_step, state):
            memories.append((bool(time_step.is_first()), all(not leaf.any() for leaf in nest.leaves(state))))
            assert time_step.observation.shape == (1, 16)
            return predict(time_step, state)

        algorithm.predict_step = predict_step
        return algorithm

    monkeypatch.setattr(player.RestoredRun, "build_algorithm", build)
    play(folder)
    assert [is_empty for is_first, is_empty in memories if is_first] == [True, True]
    assert not any(is_empty for is_first, is_empty in memories if not is_first)


def test_epsilon_greedy_replaces_that_of_the_run(trained, monkeypatch):
    chances = []
    original = player.RestoredRun.build_algorithm

    def build(run, env):
        algorithm = original(run, env)
        chances.append(algorithm.epsilon_greedy)
        return algorithm

    monkeypatch.setattr(player.RestoredRun, "build_algorithm", build)
    play(trained, PlayOptions(render=False))
    play(trained, PlayOptions(render=False, epsilon_greedy=0.25))
    assert chances == [0.0, 0.25]


def test_a_window_that_is_closed_ends_the_play(trained, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(player, "has_display", lambda: True)
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    result, said = play(trained, PlayOptions(num_episodes=1_000, fps=1_000, overlay=False))
    assert (result.returns, said, result.num_frames) == ((), [], 0)


def test_it_works_where_the_folder_was_copied_to_with_the_links_followed(trained, tmp_path, shown):
    shutil.copytree(trained, tmp_path / "elsewhere", symlinks=False)
    result, _ = play(tmp_path / "elsewhere", replace(FILM, checkpoint="best"))
    assert result.returns == play(trained, replace(FILM, checkpoint="best"))[0].returns


@pytest.mark.parametrize(
    ("frame", "kind", "message"),
    [
        (None, ConfigError, "CartPole-v1 makes no pictures: it has no render_mode 'rgb_array'. Use --norender"),
        (np.zeros((4, 4), np.uint8), EnvironmentFault, r"renders uint8 of shape \(4, 4\)"),
        (np.zeros((4, 4, 3)), EnvironmentFault, "renders float64"),
        (NotImplementedError(), ConfigError, "makes no pictures"),
        (ValueError("no context"), EnvironmentFault, "CartPole-v1 cannot be drawn: ValueError: no context\n"),
    ],
)
def test_an_environment_that_cannot_be_drawn_is_told(frame, kind, message, monkeypatch):
    env = create_environment("CartPole-v1")

    def render():
        if isinstance(frame, Exception):
            raise frame
        return frame

    monkeypatch.setattr(env, "render", render)
    with pytest.raises(kind, match=message):
        player._picture(env)


def test_an_episode_is_counted_from_first_to_last():
    env = create_environment("CartPole-v1")
    played = Played()
    for reward, is_first, is_last in ((0.0, True, False), (1.5, False, False), (2.0, False, True), (9.0, True, False)):
        played.add(Moment(reward, is_first, is_last, torch.tensor(0), Explanation()), env)
    assert (played.returns, played.lengths) == ([3.5], [2])


def test_the_return_of_a_vector_reward_is_that_of_the_evaluation():
    env = create_environment("CartPole-v1")
    played = Played(RewardReduction("max", (2,)))
    rewards = (([9.0, 9.0], True, False), ([1.0, 5.0], False, False), ([3.0, -5.0], False, True))
    for reward, is_first, is_last in rewards:
        played.add(Moment(np.array(reward), is_first, is_last, torch.tensor(0), Explanation()), env)
    assert played.returns == [4.0]  # of the sums 4 and 0, not 5 + 3

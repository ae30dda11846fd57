"""Normalisers know recorded data before anybody acts."""

from __future__ import annotations

import torch

from alfish.algorithms.transformers.frame_stacker import FrameStacker
from alfish.algorithms.transformers.normalizers import ObservationNormalizer, RewardNormalizer
from alfish.algorithms.transformers.recorded import take_statistics
from alfish.algorithms.transformers.sequential import make_data_transformer
from alfish.environments.create import create_environment
from alfish.specs import TensorSpec
from tests.algorithms.recorded import random_tape


def test_every_recorded_time_step_is_seen_once() -> None:
    tape = random_tape("CartPole-v1", num_steps=700)
    env = create_environment("CartPole-v1")
    transformer = make_data_transformer(ObservationNormalizer, env.observation_spec)
    take_statistics(transformer, tape, "cpu")
    moments = transformer.get_submodule("transformers.0.moments.0")
    std = tape.observation.std(0, correction=0)
    torch.testing.assert_close(moments.mean.float(), tape.observation.mean(0))
    torch.testing.assert_close(moments.inverse_std.float(), 1 / std, rtol=1e-4, atol=0)


def test_what_is_carried_from_step_to_step_is_carried() -> None:
    tape = random_tape(num_steps=100)
    transformer = make_data_transformer([FrameStacker, ObservationNormalizer, RewardNormalizer], TensorSpec((1,)))
    take_statistics(transformer, tape, "cpu")
    frames = transformer.get_submodule("transformers.1.moments.0")
    torch.testing.assert_close(frames.mean[-1:].float(), tape.observation.mean(0))
    assert transformer.get_submodule("transformers.2.moments").inverse_std != 1


def test_without_statistics_nothing_is_done() -> None:
    transformer = FrameStacker(TensorSpec((1,)), 3)
    take_statistics(transformer, random_tape(num_steps=20), "cpu")
    assert list(transformer.buffers()) == []

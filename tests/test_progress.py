"""Counters survive a checkpoint."""

from __future__ import annotations

from alfish.progress import Progress


def test_state_round_trip() -> None:
    progress = Progress(iterations=3, env_steps=24, updates=12, episodes=2, fraction=0.5)
    restored = Progress()
    restored.load_state_dict(progress.state_dict())
    assert restored == progress

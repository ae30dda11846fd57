"""Registers alfish's own environments with Gymnasium, when it is imported."""

from __future__ import annotations

import gymnasium as gym

_UNITTEST = "alfish.environments.unittest_envs"
_PROBE = "alfish.environments.probe_envs"
_GOAL = "alfish.environments.goal_envs"

_ENTRY_POINTS = {
    "alfish/PolicyUnittest-v0": f"{_UNITTEST}:PolicyUnittestEnv",
    "alfish/ValueUnittest-v0": f"{_UNITTEST}:ValueUnittestEnv",
    "alfish/MixedPolicyUnittest-v0": f"{_UNITTEST}:MixedPolicyUnittestEnv",
    "alfish/RNNPolicyUnittest-v0": f"{_UNITTEST}:RNNPolicyUnittestEnv",
    "alfish/ThreeArmedBandit-v0": f"{_UNITTEST}:ThreeArmedBanditEnv",
    "alfish/ConstantRewardProbe-v0": f"{_PROBE}:ConstantRewardProbe",
    "alfish/ObservationRewardProbe-v0": f"{_PROBE}:ObservationRewardProbe",
    "alfish/DelayedRewardProbe-v0": f"{_PROBE}:DelayedRewardProbe",
    "alfish/ActionRewardProbe-v0": f"{_PROBE}:ActionRewardProbe",
    "alfish/MatchingProbe-v0": f"{_PROBE}:MatchingProbe",
    "alfish/PointGoal-v0": f"{_GOAL}:PointGoalEnv",
    "alfish/BitFlipping-v0": f"{_GOAL}:BitFlippingEnv",
}

for _env_id, _entry_point in _ENTRY_POINTS.items():
    if _env_id not in gym.registry:
        gym.register(id=_env_id, entry_point=_entry_point)

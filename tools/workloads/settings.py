"""What every library does alike: the sizes of each workload."""

from __future__ import annotations

from dataclasses import dataclass

GAMMA = 0.99
LAMBDA = 0.95
CLIP = 0.2
MAX_GRADIENT_NORM = 0.5
ENTROPY = 0.01
VALUE_WEIGHT = 0.5
PPO_LEARNING_RATE = 2.5e-4
OFF_POLICY_LEARNING_RATE = 3e-4
TAU = 0.005
EPSILON = 0.1
ALPHA, BETA = 0.6, 0.4  # of prioritized replay


@dataclass(frozen=True)
class PPO:
    """PPO: `length` steps of `num_envs` environments, then `passes` over them. MLPs are 64x64 with tanh."""

    env_name: str
    num_envs: int
    length: int
    passes: int
    mini_batch: int
    is_image: bool = False  # 4 x 84 x 84, Nature CNN shared by policy and value


@dataclass(frozen=True)
class OffPolicy:
    """One environment; one update of a batch from replay for each step, after `warm_up` random ones."""

    env_name: str
    layers: tuple[int, ...]
    batch: int
    capacity: int
    prioritized: bool = False
    warm_up: int = 1000
    target_period: int = 500  # updates between copies of the Q-network (DQN)


PPO_SETTINGS = {
    "W1": PPO("CartPole-v1", 8, 128, 4, 256),
    "W2": PPO("HalfCheetah-v5", 8, 256, 10, 64),
    "W3": PPO("ALE/Pong-v5", 8, 128, 4, 256, is_image=True),
}
OFF_POLICY_SETTINGS = {
    "W4-SAC": OffPolicy("HalfCheetah-v5", (256, 256), 256, 1_000_000),
    "W4-TD3": OffPolicy("HalfCheetah-v5", (256, 256), 256, 1_000_000),
    "W5": OffPolicy("CartPole-v1", (128, 128), 128, 100_000),
    "W5-prioritized": OffPolicy("CartPole-v1", (128, 128), 128, 100_000, prioritized=True),
}
VECTORS = (("CartPole-v1", 8), ("CartPole-v1", 64), ("HalfCheetah-v5", 8), ("HalfCheetah-v5", 64))
IMAGE_VECTORS = (("ALE/Pong-v5", 8), ("ALE/Pong-v5", 64))
REPLAY_ROWS = 1_000_000
REPLAY_FRAMES = 100_000
REPLAY_BATCH = 256
OBSERVATION, ACTION = 17, 6  # floats, as HalfCheetah has

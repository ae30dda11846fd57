"""Off-policy runs without a trainer, and batches made by hand."""

from __future__ import annotations

from typing import Any

import torch

from alfish import nest
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.optimizers.adam import Adam
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.types import Experience, Nest, TimeStep
from tests.algorithms.runs import started


def start_replay(
    cls: Any,
    env_name: str = "alfish/PolicyUnittest-v0",
    env_kwargs: dict[str, Any] | None = None,
    num_environments: int = 4,
    lr: float = 1e-2,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    tape: Tape | None = None,
    **arguments: Any,
) -> Any:
    """An algorithm that learns from sampled replay, and from recorded data if there are any; ready for `train_iter`."""
    defaults: dict[str, Any] = {
        "unroll_length": 1,
        "num_updates_per_train_iter": 1,
        "mini_batch_size": 64,
        "whole_replay_buffer_training": False,
        "clear_replay_buffer": False,
        "replay_buffer_length": 2000,
    }
    config = TrainerConfig(algorithm_ctor=cls, random_seed=seed, **{**defaults, **(options or {})})
    env = create_environment(env_name, num_parallel_environments=num_environments, env_kwargs=env_kwargs)
    if not any("optimizer" in name for name in arguments):
        arguments["optimizer"] = Adam(lr=lr)
    with Seeds(seed).fork_torch("init"):
        algorithm = cls(
            env.observation_spec,
            env.action_spec,
            env.reward_spec,
            config=config,
            debug_summaries=config.debug_summaries,
            **arguments,
        )
    return started(algorithm, env, config, seed, tape)


def final_reward(algorithm: RLAlgorithm, steps: int = 50) -> torch.Tensor:
    """The mean reward of a step in evaluation: `[]`, or `[R]`. Steps that only reset do not count."""
    rewards = []
    with algorithm.evaluating(torch.Generator().manual_seed(0)):
        time_step = algorithm._env.reset(seed=1)
        state = nest.map(lambda spec: spec.zeros(algorithm._env.batch_size), algorithm.predict_state_spec)
        for _ in range(steps):
            state = nest.zero_where(time_step.is_first(), state)
            step = algorithm.predict_step(time_step, state)
            time_step, state = algorithm._env.step(step.output), step.state
            rewards.append(time_step.reward[~time_step.is_first()])
    return torch.cat(rewards).mean(0)


def sequence(
    observation: Any, action: Nest, reward: Any, discount: Any = None, step_type: Any = None, state: Nest = ()
) -> Experience:
    """Experience of given rows: observation, reward, discount and step_type `[T + 1, B, ...]`, action `[T, B, ...]`."""
    observation, reward = torch.as_tensor(observation), torch.as_tensor(reward)
    shape = reward.shape[:2]
    return Experience(
        time_step=TimeStep(
            step_type=torch.ones(shape, dtype=torch.int32) if step_type is None else torch.as_tensor(step_type),
            reward=reward,
            discount=torch.ones(shape) if discount is None else torch.as_tensor(discount),
            observation=observation,
            prev_action=(),
            env_id=torch.zeros(shape, dtype=torch.int64),
        ),
        action=action,
        state=state,
    )


def random_batch(algorithm: RLAlgorithm, length: int = 1, batch: int = 6) -> Experience:
    """`length` actions at random, with episodes that end inside."""
    step_type = torch.randint(1, 3, (length + 1, batch))
    reward = torch.randn(length + 1, batch, *algorithm.reward_spec.shape)
    observation = nest.map(lambda spec: torch.randn(length + 1, batch, *spec.shape), algorithm.observation_spec)
    action = nest.map(lambda spec: spec.sample(length, batch), algorithm.action_spec)
    return sequence(observation, action, reward, (torch.rand(length + 1, batch) < 0.7).float(), step_type)

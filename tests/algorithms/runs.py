"""A run without a trainer: an algorithm started in environments."""

from __future__ import annotations

from functools import partial
from typing import Any

from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.value import ValueNetwork, ValueRnnNetwork
from alfish.optimizers.optimizer import Optimizer
from alfish.optimizers.sgd import SGD
from alfish.progress import Progress
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers

SMALL = (16,)


def started(
    algorithm: RLAlgorithm, env: Environment, config: TrainerConfig, seed: int = 0, tape: Tape | None = None
) -> RLAlgorithm:
    algorithm.start(env, config, Seeds(seed), Progress(), Summary.disabled(), Timers(), offline=tape)
    return algorithm


def start_run(
    cls: type[ActorCriticAlgorithm] = ActorCriticAlgorithm,
    env_name: str = "CartPole-v1",
    num_environments: int = 4,
    seed: int = 0,
    optimizer: Optimizer | None = None,
    loss_class: Any = None,
    recurrent: bool = False,
    env_kwargs: dict[str, Any] | None = None,
    layers: tuple[int, ...] = SMALL,
    encoding: Any = None,
    **options: Any,
) -> Any:
    """An actor-critic with small networks, ready for `train_iter`."""
    config = TrainerConfig(algorithm_ctor=cls, random_seed=seed, **options)
    env = create_environment(env_name, num_parallel_environments=num_environments, env_kwargs=env_kwargs)
    actor: Any = partial(ActorDistributionNetwork, fc_layer_params=layers)
    value: Any = partial(ValueNetwork, fc_layer_params=layers)
    if recurrent:
        actor = partial(ActorDistributionRnnNetwork, lstm_hidden_size=layers)
        value = partial(ValueRnnNetwork, lstm_hidden_size=layers)
    with Seeds(seed).fork_torch("init"):
        algorithm = cls(
            env.observation_spec,
            env.action_spec,
            env.reward_spec,
            config=config,
            actor_network_ctor=actor,
            value_network_ctor=value,
            encoding_network_ctor=encoding,
            optimizer=optimizer if optimizer is not None else SGD(lr=0.1),
            debug_summaries=config.debug_summaries,
            **({"loss_class": loss_class} if loss_class else {}),
        )
    return started(algorithm, env, config, seed)

"""Proximal policy optimization: several clipped updates per unroll (Schulman et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.actor_critic_loss import ActorCriticLoss
from alfish.algorithms.ppo_loss import PPOLoss
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.network import Network
from alfish.networks.value import ValueNetwork
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.types import Experience, LossInfo, Nest, replace


@configurable
class PPOAlgorithm(ActorCriticAlgorithm):
    """Actor-critic that goes over each unroll `TrainerConfig.num_updates_per_train_iter` times in mini batches.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take; any nest of discrete and continuous actions.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments, for algorithms that look at them.
        config: the options of the run.
        actor_network_ctor: called with input_tensor_spec and action_spec.
        value_network_ctor: called with input_tensor_spec and output_tensor_spec.
        encoding_network_ctor: a network that both share, e.g. `@EncodingNetwork`, called with input_tensor_spec; policy
            and value then see its features, and gradients of both reach it. None: each sees the observation itself.
        loss_class: makes the loss.
        optimizer: owns the parameters of all networks.
        debug_summaries: write additional summaries.
    """

    single_update: bool = False
    idle_options: Mapping[str, str] = {}

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        actor_network_ctor: Callable[..., Any] = ActorDistributionNetwork,
        value_network_ctor: Callable[..., Any] = ValueNetwork,
        encoding_network_ctor: Callable[..., Network] | None = None,
        loss_class: Callable[..., ActorCriticLoss] = PPOLoss,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            env=env,
            config=config,
            actor_network_ctor=actor_network_ctor,
            value_network_ctor=value_network_ctor,
            encoding_network_ctor=encoding_network_ctor,
            loss_class=loss_class,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )

    def preprocess_experience(self, experience: Experience) -> Experience:
        """Keeps the log-probability of every action under the policy that took it."""
        info = experience.rollout_info
        old_log_prob = info.action_distribution.log_prob(info.action)
        prepared = super().preprocess_experience(experience)
        # The updates make distributions of their own; the old ones need not be shuffled along.
        kept = replace(prepared.rollout_info, old_log_prob=old_log_prob, action_distribution=(), value=())
        return replace(prepared, rollout_info=kept)

    def wants_more_updates(self, loss_info: LossInfo) -> bool:
        limit = getattr(self.loss, "target_kl", None)
        return limit is None or loss_info.extra["approximate_kl"].item() <= 1.5 * limit

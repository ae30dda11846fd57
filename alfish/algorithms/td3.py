"""Twin delayed DDPG: three remedies against values that are too high (Fujimoto et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch

from alfish import nest
from alfish.algorithms.algorithm import Seen
from alfish.algorithms.ddpg import DdpgAlgorithm, DdpgState
from alfish.algorithms.exploration_noise import ActionBounds, ExplorationNoise, GaussianNoise
from alfish.algorithms.td_loss import TDLoss
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.networks.actor import ActorNetwork
from alfish.networks.critic import CriticNetwork
from alfish.optimizers.optimizer import Optimizer
from alfish.optimizers.schedulers import Scheduler
from alfish.specs import TensorSpec
from alfish.types import Nest


@configurable
class Td3Algorithm(DdpgAlgorithm):
    """DDPG with twin critics, noise on the target policy, and an actor and targets that move less often.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take; any nest of continuous actions.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments, for algorithms that look at them.
        config: the options of the run.
        actor_network_ctor: called with input_tensor_spec and action_spec.
        critic_network_ctor: called with input_tensor_spec, a pair (observation, action), and output_tensor_spec.
        critic_loss_ctor: makes the targets and the loss of the critics: gamma, n-step and lambda-returns.
        num_critic_replicas: critics; targets take the lowest of them, the actor climbs the first one.
        reward_weights: of a vector reward in what the actor maximises; None weighs all rewards by 1.
        exploration_noise_ctor: called with action_spec: @GaussianNoise, @OUNoise.
        rollout_random_action: chance of a uniform action instead, apart for each environment and step.
        target_policy_noise: standard deviation of the noise on the target's actions, in half ranges of the action.
        target_policy_noise_clip: limit of that noise, in half ranges of the action.
        actor_update_period: updates of the critics (d) for one update of the actor and one move of the targets.
        target_update_tau: share of the networks in their targets at every move.
        actor_optimizer: owns the actor; None: `optimizer` does.
        critic_optimizer: owns the critics; None: `optimizer` does.
        optimizer: owns what the others do not.
        debug_summaries: write additional summaries.
    """

    _num_climbed = 1

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        actor_network_ctor: Callable[..., Any] = ActorNetwork,
        critic_network_ctor: Callable[..., Any] = CriticNetwork,
        critic_loss_ctor: Callable[..., TDLoss] = TDLoss,
        num_critic_replicas: Annotated[int, Range(min=1)] = 2,
        reward_weights: Sequence[float] | None = None,
        exploration_noise_ctor: Callable[..., ExplorationNoise] = GaussianNoise,
        rollout_random_action: Annotated[float, Range(min=0, max=1)] | Scheduler = 0.0,
        target_policy_noise: Annotated[float, Range(min=0)] = 0.2,
        target_policy_noise_clip: Annotated[float, Range(min=0)] = 0.5,
        actor_update_period: Annotated[int, Range(min=1)] = 2,
        target_update_tau: Annotated[float, Range(above=0, max=1)] = 0.005,
        actor_optimizer: Optimizer | None = None,
        critic_optimizer: Optimizer | None = None,
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
            critic_network_ctor=critic_network_ctor,
            critic_loss_ctor=critic_loss_ctor,
            num_critic_replicas=num_critic_replicas,
            reward_weights=reward_weights,
            exploration_noise_ctor=exploration_noise_ctor,
            rollout_random_action=rollout_random_action,
            target_update_tau=target_update_tau,
            target_update_period=actor_update_period,
            actor_optimizer=actor_optimizer,
            critic_optimizer=critic_optimizer,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self._noise = target_policy_noise
        self._noise_clip = target_policy_noise_clip
        self._bounds = nest.map(ActionBounds, action_spec)

    def _target_action(self, seen: Seen, state: DdpgState) -> Nest:
        """With clipped noise, so that the target is the mean over similar actions (equation 14)."""

        def smooth(bounds: ActionBounds, action: torch.Tensor) -> torch.Tensor:
            noise = torch.empty_like(action).normal_(generator=self.generator) * self._noise
            return bounds.disturbed(action, noise.clamp(-self._noise_clip, self._noise_clip))

        return nest.map(smooth, self._bounds, super()._target_action(seen, state))

    def _trains_actor(self) -> bool:
        return self.critics.targets_move_next

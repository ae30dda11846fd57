"""Implicit Q-learning: the best of what was done in the data, without a guess about the rest (Kostrikov et al. 2021).

The value of a state is an upper expectile of the values of the actions that were taken there, so no action that the
data do not hold is ever judged. The actor imitates, and the better an action was the more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import torch

from alfish import nest
from alfish.algorithms.actor_critic import epsilon_greedy_action
from alfish.algorithms.critics import CriticLoss, Critics, first_state, summarize_critics
from alfish.algorithms.explanation import Explanation, outline
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.td_loss import TDLoss, refuse_correction
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.losses.implicit_q import advantage_weights, expectile_weight
from alfish.losses.value_ops import align
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.critic import CriticNetwork
from alfish.networks.network import unroll_network
from alfish.networks.value import ValueNetwork
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep, record


@record
class IqlState:
    """Memory of the networks; () for those without."""

    actor: Nest = ()
    value: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()


@configurable
class IqlAlgorithm(RLAlgorithm):
    """Learns from recorded experience (`TrainerConfig.offline_buffer_dir`), and goes on with its own.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take; any nest of discrete and continuous actions.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments, for algorithms that look at them.
        config: the options of the run.
        actor_network_ctor: called with input_tensor_spec and action_spec.
        critic_network_ctor: called with input_tensor_spec, a pair (observation, action), and output_tensor_spec.
        value_network_ctor: called with input_tensor_spec and output_tensor_spec.
        critic_loss_ctor: makes the targets and the loss of the critics: @TDLoss has gamma and n-step returns.
        num_critic_replicas: critics; the lowest of them counts.
        reward_weights: of a vector reward in what is maximised; None weighs all rewards by 1.
        expectile: tau of the paper: 0.5 values states by what was done there on average, near 1 by the best of it;
            0.7 is the paper's for locomotion, 0.9 for mazes.
        inverse_temperature: beta of the paper: 0 imitates all actions alike, 3 is the paper's for locomotion, 10 for
            mazes; in units of 1 / return.
        max_weight: the most that one action counts in imitation.
        target_update_tau: share of the critics in their targets at every move.
        target_update_period: updates between moves of the targets.
        actor_optimizer: owns the actor; None: `optimizer` does.
        critic_optimizer: owns critics and value network; None: `optimizer` does.
        optimizer: owns what the others do not.
        debug_summaries: write additional summaries.
    """

    on_policy: bool = False
    provides_priority: bool = True
    has_action_distribution: bool = True
    learning_only = ("critics", "value_network")
    idle_options: Mapping[str, str] = {
        "use_rollout_state": "its critics have no part in acting, so sequences begin with empty memories",
        "temporally_independent_train_step": "sequences go through its networks at once in any case",
    }

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        actor_network_ctor: Callable[..., Any] = ActorDistributionNetwork,
        critic_network_ctor: Callable[..., Any] = CriticNetwork,
        value_network_ctor: Callable[..., Any] = ValueNetwork,
        critic_loss_ctor: Callable[..., TDLoss] = TDLoss,
        num_critic_replicas: Annotated[int, Range(min=1)] = 2,
        reward_weights: Sequence[float] | None = None,
        expectile: Annotated[float, Range(above=0, below=1)] = 0.7,
        inverse_temperature: Annotated[float, Range(min=0)] = 3.0,
        max_weight: Annotated[float, Range(above=0)] = 100.0,
        target_update_tau: Annotated[float, Range(above=0, max=1)] = 0.005,
        target_update_period: Annotated[int, Range(min=1)] = 1,
        actor_optimizer: Optimizer | None = None,
        critic_optimizer: Optimizer | None = None,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        value = value_network_ctor(input_tensor_spec=observation_spec, output_tensor_spec=reward_spec)
        loss = critic_loss_ctor()
        refuse_correction(loss, "IqlAlgorithm")
        critics = Critics(
            lambda: critic_network_ctor(
                input_tensor_spec=(observation_spec, action_spec), output_tensor_spec=reward_spec
            ),
            num_critic_replicas,
            reward_spec,
            reward_weights,
            loss,
            target_update_tau,
            target_update_period,
        )
        memory = IqlState(actor.state_spec, value.state_spec, critics.state_spec, critics.state_spec)
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            config,
            train_state_spec=memory if nest.leaves(memory) else (),
            rollout_state_spec=actor.state_spec,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self.sequence_length = loss.least_time_steps
        self.actor_network = actor
        self.value_network = value
        self.critics = critics
        self._expectile = expectile
        self._inverse_temperature = inverse_temperature
        self._max_weight = max_weight
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])
        if critic_optimizer is not None:
            self.add_optimizer(critic_optimizer, [critics, value])

    # Acting

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        distribution, state = self.actor_network(time_step.observation, state)
        return AlgStep(distribution.sample(self.generator), state)

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        distribution, state = self.actor_network(time_step.observation, state)
        return AlgStep(epsilon_greedy_action(distribution, self.epsilon_greedy, self.generator), state)

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        distribution, _ = self.actor_network(time_step.observation, state)
        value: Nest = ()
        if self.value_network.state_spec == ():
            value, _ = self.value_network(time_step.observation)
        judged = self.critics.judge((time_step.observation, action))
        return Explanation(value=value, action_value=judged, policy=outline(distribution))

    # Learning

    def compute_loss(self, experience: Experience) -> LossInfo:
        time_step, state = experience.time_step, first_state(self.train_state_spec, experience) or IqlState()
        seen, taken = self.seen_in(time_step), self.seen_in(time_step, slice(None, -1))
        values, _ = unroll_network(self.value_network, seen.observation, state.value, seen.is_first)
        # No gradient: the critics learn from the values and the values from the critics, but neither moves the other.
        advantage = self._judge(self.critics.target, experience, state.target_critics).detach() - values[:-1]
        total = self.critics.total(advantage)
        squares = advantage.square() * align(expectile_weight(total, self._expectile), advantage)
        critic = self.critics.loss(
            time_step, self._judge_all(self.critics.online, experience, state.critics), values[1:].detach()
        )
        policy, _ = unroll_network(self.actor_network, taken.observation, state.actor, taken.is_first)
        self.summarize_policy(policy)
        weights = advantage_weights(total, self._inverse_temperature, self._max_weight)
        extra = {
            "value": squares.sum(-1) if squares.dim() > total.dim() else squares,
            "critic": critic.loss,
            "actor": -weights * policy.log_prob(experience.action),
        }
        if self.debug_summaries:
            self._summarize(critic, total, weights)
        return LossInfo(sum(extra.values()), extra=extra, priority=critic.priority)

    def after_update(self) -> None:
        self.critics.update_targets()

    def _judge_all(self, critics: Any, experience: Experience, state: Nest) -> torch.Tensor:
        """What each critic says of the actions that were taken, `[N, T, B]` or `[N, T, B, R]`."""
        taken = self.seen_in(experience.time_step, slice(None, -1))
        inputs = (taken.observation, experience.action)
        values: torch.Tensor = unroll_network(critics, inputs, state, taken.is_first)[0]
        return values

    def _judge(self, critics: Any, experience: Experience, state: Nest) -> torch.Tensor:
        """What the lowest critic says."""
        return self.critics.lowest(self._judge_all(critics, experience, state))

    def _summarize(self, critic: CriticLoss, advantage: torch.Tensor, weights: torch.Tensor) -> None:
        summarize_critics(self.summary, critic)
        with self.summary.scope("Debug"):
            self.summary.histogram("advantage", advantage)
            self.summary.histogram("weight", weights)

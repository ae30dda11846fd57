"""Advantage actor-critic: one update per unroll (A2C, Mnih et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from alfish import nest, specs
from alfish.algorithms.actor_critic_loss import ActorCriticInfo, ActorCriticLoss
from alfish.algorithms.explanation import Explanation, outline
from alfish.algorithms.on_policy import counts
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.losses.policy_gradient import explained_variance
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.network import Network, unroll_network
from alfish.networks.shared_encoding import SharedEncoding
from alfish.networks.value import ValueNetwork
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep, record, replace


@record
class ActorCriticState:
    """Memory of the networks; () for one without memory."""

    actor: Nest = ()
    value: Nest = ()
    encoding: Nest = ()


@configurable
class ActorCriticAlgorithm(RLAlgorithm):
    """A policy network and a value network, trained on every unroll once.

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

    on_policy: bool = True
    single_update: bool = True
    has_action_distribution: bool = True
    idle_options: Mapping[str, str] = dict.fromkeys(
        ("num_updates_per_train_iter", "mini_batch_length", "mini_batch_size", "use_rollout_state"),
        "it makes one update over each whole unroll",
    )

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
        loss_class: Callable[..., ActorCriticLoss] = ActorCriticLoss,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        encoding = None
        if encoding_network_ctor is not None:
            encoding = SharedEncoding(observation_spec, encoding_network_ctor(input_tensor_spec=observation_spec))
        seen_spec = observation_spec if encoding is None else encoding.output_spec
        actor = actor_network_ctor(input_tensor_spec=seen_spec, action_spec=action_spec)
        value = value_network_ctor(input_tensor_spec=seen_spec, output_tensor_spec=reward_spec)
        state_spec = ActorCriticState(actor.state_spec, value.state_spec, encoding.state_spec if encoding else ())
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            config,
            train_state_spec=state_spec if nest.leaves(state_spec) else (),
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self.encoding_network = encoding
        self.actor_network = actor
        self.value_network = value
        self.loss = loss_class()
        # A value network without memory judges the whole unroll in one batch afterwards, which is faster, unless the
        # larger part of the work was done for acting already.
        with_grad = bool(config and config.unroll_with_grad)
        self._values_while_acting = with_grad or value.state_spec != () or encoding is not None

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        state = state or ActorCriticState()
        seen, encoding_state = self._encode(time_step.observation, state)
        distribution, actor_state = self.actor_network(seen, state.actor)
        action = epsilon_greedy_action(distribution, self.epsilon_greedy, self.generator)
        next_state = replace(state, actor=actor_state, encoding=encoding_state) if self.train_state_spec else ()
        return AlgStep(action, next_state)

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        state = state or ActorCriticState()
        seen, _ = self._encode(time_step.observation, state)
        distribution, _ = self.actor_network(seen, state.actor)
        value: Nest = ()
        if self.value_network.state_spec == ():  # its memory is not kept up in play
            value, _ = self.value_network(seen)
        return Explanation(value=value, policy=outline(distribution))

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        state = state or ActorCriticState()
        seen, encoding_state = self._encode(time_step.observation, state)
        distribution, actor_state = self.actor_network(seen, state.actor)
        action = distribution.sample(self.generator)
        value, value_state = (), ()
        if self._values_while_acting:
            value, value_state = self.value_network(seen, state.value)
        next_state = ActorCriticState(actor_state, value_state, encoding_state) if self.train_state_spec else ()
        return AlgStep(action, next_state, ActorCriticInfo(action, distribution, value))

    def preprocess_experience(self, experience: Experience) -> Experience:
        """Judges every action: advantages and value targets, with the values of before the update."""
        values = self._judge(experience)
        advantage, target = self.loss.estimate(values, experience.time_step)
        info = replace(
            experience.rollout_info,
            advantage=advantage,
            target=target,
            valid=counts(nest.map(lambda leaf: leaf[:-1], experience.time_step)),
            old_value=values[:-1],
        )
        if self.debug_summaries:
            self._summarize(info)
        return replace(experience, rollout_info=info)

    def preprocess_pass(self, rollout_info: ActorCriticInfo, sizes: Sequence[int]) -> ActorCriticInfo:
        return replace(rollout_info, advantage=self.loss.shape_advantages(rollout_info, sizes))

    def train_step(self, time_step: TimeStep, state: Nest, rollout_info: ActorCriticInfo) -> AlgStep:
        state = state or ActorCriticState()
        seen, encoding_state = self._encode(time_step.observation, state)
        distribution, actor_state = self.actor_network(seen, state.actor)
        value, value_state = self.value_network(seen, state.value)
        next_state = ActorCriticState(actor_state, value_state, encoding_state) if self.train_state_spec else ()
        return AlgStep((), next_state, replace(rollout_info, action_distribution=distribution, value=value))

    def train_steps(self, time_steps: TimeStep, state: Nest, rollout_info: ActorCriticInfo) -> ActorCriticInfo:
        """The whole sequence at once, which with memory is several times as fast as in steps."""
        has_own_step = type(self).train_step is not ActorCriticAlgorithm.train_step
        if self.stepwise_training or has_own_step:
            return super().train_steps(time_steps, state, rollout_info)
        batch, device = time_steps.step_type.shape[1], time_steps.step_type.device
        state = state or specs.zeros(self.train_state_spec, batch, device=device) or ActorCriticState()
        inputs, is_first = self.seen_in(time_steps)
        if self.encoding_network is not None:
            inputs, _ = unroll_network(self.encoding_network, inputs, state.encoding, is_first)
        distribution, _ = unroll_network(self.actor_network, inputs, state.actor, is_first)
        value, _ = unroll_network(self.value_network, inputs, state.value, is_first)
        return replace(rollout_info, action_distribution=distribution, value=value)

    def calc_loss(self, info: ActorCriticInfo) -> LossInfo:
        self.summarize_policy(info.action_distribution)
        return self.loss(info, self.progress, diagnose=self.summary.enabled)

    def _summarize(self, info: ActorCriticInfo) -> None:
        with self.summary.scope("Debug"):
            self.summary.scalar(
                "explained_variance",
                lambda: explained_variance(info.old_value, info.target, self._per_reward(info.valid)),
            )
            self.summary.histogram("advantage", info.advantage)
            self.summary.histogram("value", info.old_value)

    def _per_reward(self, rows: torch.Tensor) -> torch.Tensor:
        """`[T, B]` as wide as the values, which have a column for each element of a vector reward."""
        shape = self.reward_spec.shape
        return rows.reshape(*rows.shape, *(1,) * len(shape)).expand(*rows.shape, *shape)

    def _encode(self, observation: Nest, state: ActorCriticState) -> tuple[Nest, Nest]:
        """What policy and value see, and the memory of what they share."""
        if self.encoding_network is None:
            return observation, ()
        seen, encoding_state = self.encoding_network(observation, state.encoding)
        return seen, encoding_state

    @torch.no_grad()
    def _judge(self, experience: Experience) -> torch.Tensor:
        """The values `[T + 1, B]` of all time steps, without gradient."""
        observations = experience.time_step.observation
        if not self._values_while_acting:
            values, _ = self.value_network(nest.flatten_time(observations))
            return nest.unflatten_time(values, experience.length + 1)
        newest = nest.index(experience.time_step, -1)
        state = nest.zero_where(newest.is_first(), experience.final_state or ActorCriticState())
        seen, _ = self._encode(newest.observation, state)
        last, _ = self.value_network(seen, state.value)
        return torch.cat([experience.rollout_info.value.detach(), last.unsqueeze(0)])


def epsilon_greedy_action(distribution: Any, epsilon: float, generator: torch.Generator) -> Nest:
    """The most likely action; with probability `epsilon`, apart for each environment, a sampled one."""
    if epsilon == 0:
        return distribution.mode()
    if epsilon == 1:
        return distribution.sample(generator)
    mode, sample = distribution.mode(), distribution.sample(generator)
    batch = nest.first_leaf(mode).shape[:1]
    device = nest.first_leaf(mode).device
    return nest.where(torch.rand(batch, generator=generator, device=device) < epsilon, sample, mode)

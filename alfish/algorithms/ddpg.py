"""Deep deterministic policy gradient: a deterministic actor climbs its critics (Lillicrap et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any

import torch

from alfish import nest, specs
from alfish.algorithms.algorithm import Seen
from alfish.algorithms.critics import CriticLoss, Critics, first_state, summarize_critics
from alfish.algorithms.explanation import Explanation
from alfish.algorithms.exploration_noise import ExplorationNoise, OUNoise
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.target_update import TargetUpdater
from alfish.algorithms.td_loss import TDLoss, refuse_correction
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.networks.actor import ActorNetwork
from alfish.networks.critic import CriticNetwork
from alfish.networks.network import unroll_network
from alfish.optimizers.optimizer import Optimizer
from alfish.optimizers.schedulers import Scheduler, as_scheduler
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep, record, replace


@record
class DdpgState:
    """Memory of the networks and of the noise; () for what has none."""

    actor: Nest = ()
    target_actor: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()
    noise: Nest = ()


@configurable
class DdpgAlgorithm(RLAlgorithm):
    """A deterministic policy with noise, and one or several critics of it.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take; any nest of continuous actions.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments, for algorithms that look at them.
        config: the options of the run.
        actor_network_ctor: called with input_tensor_spec and action_spec.
        critic_network_ctor: called with input_tensor_spec, a pair (observation, action), and output_tensor_spec.
        critic_loss_ctor: makes the targets and the loss of the critics: gamma, n-step and lambda-returns.
        num_critic_replicas: critics; the lowest of them counts.
        reward_weights: of a vector reward in what the actor maximises; None weighs all rewards by 1.
        exploration_noise_ctor: called with action_spec: @OUNoise, @GaussianNoise.
        rollout_random_action: chance of a uniform action instead, apart for each environment and step.
        target_update_tau: share of the networks in their targets at every move.
        target_update_period: updates between moves of the targets.
        actor_optimizer: owns the actor; None: `optimizer` does.
        critic_optimizer: owns the critics; None: `optimizer` does.
        optimizer: owns what the others do not.
        debug_summaries: write additional summaries.
    """

    on_policy: bool = False
    provides_priority: bool = True
    _num_climbed: int | None = None  # the actor climbs the lowest of so many critics, the first ones; None: of all
    idle_options: Mapping[str, str] = {
        "temporally_independent_train_step": "sequences go through its networks at once in any case"
    }

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
        num_critic_replicas: Annotated[int, Range(min=1)] = 1,
        reward_weights: Sequence[float] | None = None,
        exploration_noise_ctor: Callable[..., ExplorationNoise] = OUNoise,
        rollout_random_action: Annotated[float, Range(min=0, max=1)] | Scheduler = 0.0,
        target_update_tau: Annotated[float, Range(above=0, max=1)] = 0.005,
        target_update_period: Annotated[int, Range(min=1)] = 1,
        actor_optimizer: Optimizer | None = None,
        critic_optimizer: Optimizer | None = None,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        loss = critic_loss_ctor()
        refuse_correction(loss, type(self).__name__)
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
        noise = exploration_noise_ctor(action_spec=action_spec)
        memory = DdpgState(actor.state_spec, actor.state_spec, critics.state_spec, critics.state_spec)
        self_contained = memory if config and config.use_rollout_state else DdpgState(actor.state_spec)
        carried = replace(self_contained, noise=noise.state_spec)
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            config,
            train_state_spec=memory if nest.leaves(memory) else (),
            rollout_state_spec=carried if nest.leaves(carried) else (),
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self.predict_state_spec = DdpgState(actor.state_spec) if actor.state_spec else ()
        self.sequence_length = loss.least_time_steps
        self.actor_network = actor
        self.target_actor_network = deepcopy(actor)
        self.critics = critics
        self.exploration_noise = noise
        self._target_updater = TargetUpdater(actor, self.target_actor_network, target_update_tau, target_update_period)
        self._random_action = as_scheduler(rollout_random_action)
        self._carries_all_memory = self_contained is memory
        if not self._carries_all_memory:
            self.learning_only = ("target_actor_network", "critics")
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])
        if critic_optimizer is not None:
            self.add_optimizer(critic_optimizer, [critics])

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        state = state or DdpgState()
        action, actor_state = self.actor_network(time_step.observation, state.actor)
        action = self.exploration_noise.sometimes(action, self.epsilon_greedy, self.generator, self.progress)
        return AlgStep(action, DdpgState(actor_state) if self.predict_state_spec else ())

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        return Explanation(action_value=self.critics.judge((time_step.observation, action)))

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        state = state or DdpgState()
        action, actor_state = self.actor_network(time_step.observation, state.actor)
        action, noise = self.exploration_noise(action, state.noise, self.generator, self.progress)
        chance = self._random_action(self.progress)
        if chance > 0:
            anything = specs.sample(self.action_spec, len(time_step.step_type), generator=self.generator)
            action = nest.where(self._coins(time_step, chance), anything, action)
        if self._carries_all_memory:
            state = self._remember(time_step, action, state)
        return AlgStep(action, replace(state, actor=actor_state, noise=noise) if self.rollout_state_spec else ())

    def compute_loss(self, experience: Experience) -> LossInfo:
        time_step, state = experience.time_step, first_state(self.train_state_spec, experience) or DdpgState()
        critic = self._critic_loss(experience, state)
        loss, extra = critic.loss, {"critic": critic.loss}
        if self._trains_actor():
            extra["actor"] = self._actor_loss(self.seen_in(time_step, slice(None, -1)), state)
            loss = loss + extra["actor"]
        if self.debug_summaries:
            summarize_critics(self.summary, critic)
        return LossInfo(loss, extra=extra, priority=critic.priority)

    def after_update(self) -> None:
        self._target_updater.step()
        self.critics.update_targets()

    def _critic_loss(self, experience: Experience, state: DdpgState) -> CriticLoss:
        time_step = experience.time_step
        with torch.no_grad():
            # Only networks with memory need to see the first time step to judge the later ones.
            seen = self.seen_in(time_step, slice(0 if self.train_state_spec else 1, None))
            inputs = (seen.observation, self._target_action(seen, state))
            next_values, _ = unroll_network(self.critics.target, inputs, state.target_critics, seen.is_first)
            next_value = self.critics.lowest(next_values)[-experience.length :]
        taken = self.seen_in(time_step, slice(None, -1))
        inputs = (taken.observation, experience.action)
        value, _ = unroll_network(self.critics.online, inputs, state.critics, taken.is_first)
        return self.critics.loss(time_step, value, next_value)

    def _target_action(self, seen: Seen, state: DdpgState) -> Nest:
        """What the target policy would do at every time step."""
        return unroll_network(self.target_actor_network, seen.observation, state.target_actor, seen.is_first)[0]

    def _actor_loss(self, seen: Seen, state: DdpgState) -> torch.Tensor:
        action, _ = unroll_network(self.actor_network, seen.observation, state.actor, seen.is_first)
        with self.critics.frozen() as critics:
            inputs = (seen.observation, action)
            values, _ = critics.unroll(inputs, state.critics, seen.is_first, number=self._num_climbed)
        return -self.critics.total(self.critics.lowest(values))

    def loss_variant(self) -> Hashable:
        return self._trains_actor()

    def _trains_actor(self) -> bool:
        return True

    def _remember(self, time_step: TimeStep, action: Nest, state: DdpgState) -> DdpgState:
        """What the other networks remember of this step, so that replayed sequences can begin after it."""
        inputs = (time_step.observation, action)
        return replace(
            state,
            target_actor=self.target_actor_network(time_step.observation, state.target_actor)[1],
            critics=self.critics.online(inputs, state.critics)[1],
            target_critics=self.critics.target(inputs, state.target_critics)[1],
        )

    def _coins(self, time_step: TimeStep, chance: float) -> torch.Tensor:
        device = time_step.step_type.device
        return torch.rand(len(time_step.step_type), generator=self.generator, device=device) < chance

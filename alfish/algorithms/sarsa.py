"""SARSA with an actor: critics of what was really done next (Rummery and Niranjan 1994), an actor that climbs them.

The actor is deterministic with noise, as in DDPG, or a distribution with an entropy target, as in SAC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import torch

from alfish import nest, specs
from alfish.algorithms.actor_critic import epsilon_greedy_action
from alfish.algorithms.algorithm import Seen
from alfish.algorithms.critics import CriticLoss, Critics, first_state, summarize_critics
from alfish.algorithms.entropy_temperature import EntropyTemperature, default_target_entropy
from alfish.algorithms.explanation import Explanation, outline
from alfish.algorithms.exploration_noise import ExplorationNoise, OUNoise
from alfish.algorithms.on_policy import counts
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.sac_networks import check_squashed
from alfish.algorithms.td_loss import TDLoss, as_sequence, refuse_correction
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.networks.actor import ActorNetwork
from alfish.networks.critic import CriticNetwork
from alfish.networks.distributions import Distribution
from alfish.networks.network import unroll_network
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep, record, replace


@record
class SarsaState:
    """Memory of the networks and of the noise; () for what has none."""

    actor: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()
    noise: Nest = ()


@configurable
class SarsaAlgorithm(RLAlgorithm):
    """Off-policy SARSA on replayed sequences: the value of the next step is that of the action stored for it.

    A sequence of T actions trains the first T - 1, since the one after the last is not known.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take; any nest of continuous actions.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments, for algorithms that look at them.
        config: the options of the run.
        actor_network_ctor: called with input_tensor_spec and action_spec. @ActorNetwork: a policy as in DDPG;
            @ActorDistributionNetwork with @StableNormalProjectionNetwork: one as in SAC.
        critic_network_ctor: called with input_tensor_spec, a pair (observation, action), and output_tensor_spec.
        critic_loss_ctor: makes the targets and the loss of the critics: gamma, n-step and lambda-returns.
        num_critic_replicas: critics; the lowest of them counts.
        reward_weights: of a vector reward in what is maximised; None weighs all rewards by 1.
        exploration_noise_ctor: for a policy as in DDPG, called with action_spec: @OUNoise, @GaussianNoise.
        target_entropy: for a policy as in SAC, in nats; None: -1 for each element, in half ranges of it.
        initial_log_alpha: for a policy as in SAC: logarithm of the weight of the entropy at the start.
        target_update_tau: share of the critics in their targets at every move.
        target_update_period: updates between moves of the targets.
        actor_optimizer: owns the actor; None: `optimizer` does.
        critic_optimizer: owns the critics; None: `optimizer` does.
        alpha_optimizer: owns alpha; None: `optimizer` does.
        optimizer: owns what the others do not.
        debug_summaries: write additional summaries.
    """

    on_policy: bool = False
    provides_priority: bool = True
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
        num_critic_replicas: Annotated[int, Range(min=1)] = 2,
        reward_weights: Sequence[float] | None = None,
        exploration_noise_ctor: Callable[..., ExplorationNoise] = OUNoise,
        target_entropy: float | None = None,
        initial_log_alpha: float = 0.0,
        target_update_tau: Annotated[float, Range(above=0, max=1)] = 0.005,
        target_update_period: Annotated[int, Range(min=1)] = 1,
        actor_optimizer: Optimizer | None = None,
        critic_optimizer: Optimizer | None = None,
        alpha_optimizer: Optimizer | None = None,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        if any(spec.is_discrete for spec in nest.leaves(action_spec)):
            raise ConfigError(
                "SarsaAlgorithm is for continuous actions. DqnAlgorithm and SacAlgorithm take discrete ones"
            )
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        is_soft = _makes_distributions(actor, observation_spec)
        noise = None if is_soft else exploration_noise_ctor(action_spec=action_spec)
        loss = critic_loss_ctor()
        refuse_correction(loss, "SarsaAlgorithm")
        _check_style(is_soft, alpha_optimizer, target_entropy)
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
        memory = SarsaState(actor.state_spec, critics.state_spec, critics.state_spec)
        shared = memory if config and config.use_rollout_state else SarsaState(actor.state_spec)
        carried = replace(shared, noise=noise.state_spec if noise else ())
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
        self.predict_state_spec = SarsaState(actor.state_spec) if actor.state_spec else ()
        self.sequence_length = loss.least_time_steps + 1
        self.actor_network = actor
        self.critics = critics
        self.exploration_noise = noise
        self.temperature = None
        self.has_action_distribution = is_soft
        if is_soft:
            check_squashed(actor, observation_spec, action_spec)
            target = default_target_entropy(action_spec) if target_entropy is None else target_entropy
            self.temperature = EntropyTemperature(target, initial_log_alpha)
        self._carries_all_memory = shared is memory
        if not self._carries_all_memory:
            self.learning_only = ("critics",)
        _check_length(config, self.sequence_length)
        owners = ((actor_optimizer, actor), (critic_optimizer, critics), (alpha_optimizer, self.temperature))
        for owner, module in owners:
            if owner is not None and module is not None:
                self.add_optimizer(owner, [module])

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        policy, actor_state = self.actor_network(time_step.observation, (state or SarsaState()).actor)
        if self.exploration_noise is None:
            action = epsilon_greedy_action(policy, self.epsilon_greedy, self.generator)
        else:
            action = self.exploration_noise.sometimes(policy, self.epsilon_greedy, self.generator, self.progress)
        return AlgStep(action, SarsaState(actor_state) if self.predict_state_spec else ())

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        policy, _ = self.actor_network(time_step.observation, (state or SarsaState()).actor)
        return Explanation(
            action_value=self.critics.judge((time_step.observation, action)),
            policy=outline(policy) if self.exploration_noise is None else (),
        )

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        state = state or SarsaState()
        policy, actor_state = self.actor_network(time_step.observation, state.actor)
        if self.exploration_noise is None:
            action, noise = policy.sample(self.generator), ()
        else:
            action, noise = self.exploration_noise(policy, state.noise, self.generator, self.progress)
        if self._carries_all_memory:
            inputs = (time_step.observation, action)
            critics = self.critics.online(inputs, state.critics)[1]
            state = replace(state, critics=critics, target_critics=self.critics.target(inputs, state.target_critics)[1])
        return AlgStep(action, replace(state, actor=actor_state, noise=noise) if self.rollout_state_spec else ())

    def compute_loss(self, experience: Experience) -> LossInfo:
        state = first_state(self.train_state_spec, experience) or SarsaState()
        # The action at the last time step is not known: the sequence ends one step earlier.
        time_step = nest.index(experience.time_step, slice(None, -1))
        critic = self._critic_loss(time_step, experience.action, state)
        losses = {"critic": critic.loss, **self._actor_losses(self.seen_in(time_step, slice(None, -1)), state)}
        valid = counts(time_step)
        extra = {name: as_sequence(loss, valid) for name, loss in losses.items()}
        if self.debug_summaries:
            summarize_critics(self.summary, critic)
        return LossInfo(sum(extra.values()), extra=extra, priority=critic.priority)

    def after_update(self) -> None:
        self.critics.update_targets()

    def _critic_loss(self, time_step: TimeStep, action: Nest, state: SarsaState) -> CriticLoss:
        """Of `T` time steps and the `T` actions taken there; the first `T - 1` are trained."""
        with torch.no_grad():
            # Only networks with memory need to see the first time step to judge the later ones.
            later = slice(0 if self.train_state_spec else 1, None)
            seen = self.seen_in(time_step, later)
            inputs = (seen.observation, nest.index(action, later))
            next_value = self.critics.lowest(
                unroll_network(self.critics.target, inputs, state.target_critics, seen.is_first)[0]
            )
            if self.temperature is not None:
                _, log_prob = self._act(seen, state)
                next_value = next_value - self.critics.spread(self.temperature.alpha() * log_prob)
        taken = self.seen_in(time_step, slice(None, -1))
        inputs = (taken.observation, nest.index(action, slice(None, -1)))
        value, _ = unroll_network(self.critics.online, inputs, state.critics, taken.is_first)
        return self.critics.loss(time_step, value, next_value[-value.shape[1] :])

    def _actor_losses(self, seen: Seen, state: SarsaState) -> dict[str, torch.Tensor]:
        action, log_prob = self._act(seen, state)
        with self.critics.frozen() as critics:
            values, _ = unroll_network(critics, (seen.observation, action), state.critics, seen.is_first)
        climbed = self.critics.total(self.critics.lowest(values))
        if self.temperature is None:
            return {"actor": -climbed}
        return {"actor": self.temperature.alpha() * log_prob - climbed, "alpha": self.temperature.loss(-log_prob)}

    def _act(self, seen: Seen, state: SarsaState) -> tuple[Nest, Any]:
        """What the policy would do, with gradient, and the log-probability of that; () if it is deterministic."""
        policy, _ = unroll_network(self.actor_network, seen.observation, state.actor, seen.is_first)
        if self.has_action_distribution and torch.is_grad_enabled():
            self.summarize_policy(policy)
        return (policy, ()) if self.temperature is None else policy.rsample_and_log_prob(self.generator)


def _makes_distributions(actor: Any, observation_spec: Nest) -> bool:
    output, _ = actor(specs.zeros(observation_spec, 1), specs.zeros(actor.state_spec, 1))
    return isinstance(output, Distribution)


def _check_style(is_soft: bool, alpha_optimizer: Optimizer | None, target_entropy: float | None) -> None:
    given = {"alpha_optimizer": alpha_optimizer, "target_entropy": target_entropy}
    idle = [f"SarsaAlgorithm.{name}" for name, value in given.items() if value is not None]
    if idle and not is_soft:
        raise ConfigError(
            f"{', '.join(idle)}: has no use for a deterministic policy, which has no entropy. Remove the line, or use "
            "SarsaAlgorithm.actor_network_ctor = @ActorDistributionNetwork"
        )


def _check_length(config: TrainerConfig | None, least: int) -> None:
    given = config.mini_batch_length if config else None
    if config and given is not None and given + config.whole_replay_buffer_training < least:
        raise ConfigError(
            f"TrainerConfig.mini_batch_length = {given}: SarsaAlgorithm needs the action after the last one it trains, "
            f"so sequences have {least} time steps at least. Leave mini_batch_length out, or use more"
        )

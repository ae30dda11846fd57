"""Soft actor-critic: high returns at high entropy (Haarnoja et al. 2018).

Continuous actions have an actor and critics. A discrete action needs no actor: the best soft policy for given action
values is known, `softmax(q / alpha)`, and the mean over it is exact. Mixed actions have an actor for the continuous
part and critics that give a value for every choice of the discrete part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import torch

from alfish import nest
from alfish.algorithms.action_parts import ActionParts
from alfish.algorithms.algorithm import Seen
from alfish.algorithms.critics import CriticLoss, Critics, first_state, summarize_critics
from alfish.algorithms.entropy_temperature import EntropyTemperature
from alfish.algorithms.explanation import Explanation, outline
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.sac_networks import check_networks, check_options, check_squashed, target_entropies
from alfish.algorithms.td_loss import Correction, TDLoss
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.networks.distributions import Categorical, Distribution
from alfish.networks.network import unroll_network
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep, record, replace


@record
class SacState:
    """Memory of the networks; () for those without."""

    actor: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()


@record
class SacPolicy:
    """The distribution of each part of an action; None for a part that there is not."""

    continuous: Distribution | None = None
    discrete: Categorical | None = None

    def log_prob(self, discrete: Nest, continuous: Nest) -> torch.Tensor:
        parts = ((self.discrete, discrete), (self.continuous, continuous))
        return torch.stack([policy.log_prob(action) for policy, action in parts if policy is not None]).sum(0)


@configurable
class SacAlgorithm(RLAlgorithm):
    """Soft actor-critic for continuous, discrete and mixed actions.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take: any nest of continuous actions, one discrete action, or both.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments, for algorithms that look at them.
        config: the options of the run.
        actor_network_ctor: policy of the continuous actions, called with input_tensor_spec and action_spec:
            @ActorDistributionNetwork with @StableNormalProjectionNetwork. Not for a discrete action alone.
        critic_network_ctor: for continuous actions alone, called with input_tensor_spec, a pair (observation, action),
            and output_tensor_spec.
        q_network_ctor: when there is a discrete action, called with input_tensor_spec (the observation, or for mixed
            actions the pair of it and the continuous actions), action_spec and output_tensor_spec.
        critic_loss_ctor: makes the targets and the loss of the critics: @TDLoss has gamma, n-step and lambda-returns,
            @RetraceTDLoss corrects them for actions of older policies.
        num_critic_replicas: critics; the lowest of them counts.
        reward_weights: of a vector reward in what is maximised; None weighs all rewards by 1.
        target_entropy: in nats, of the policy; a pair (discrete, continuous) for mixed actions. None: for each
            continuous element -1 in half ranges of it; for a discrete action that of a choice with probability 0.9.
        initial_log_alpha: logarithm of alpha, the weight of the entropy, at the start.
        learn_alpha: drive the entropy to its target; False keeps alpha.
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
    has_action_distribution: bool = True
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
        actor_network_ctor: Callable[..., Any] | None = None,
        critic_network_ctor: Callable[..., Any] | None = None,
        q_network_ctor: Callable[..., Any] | None = None,
        critic_loss_ctor: Callable[..., TDLoss] = TDLoss,
        num_critic_replicas: Annotated[int, Range(min=1)] = 2,
        reward_weights: Sequence[float] | None = None,
        target_entropy: float | tuple[float, float] | None = None,
        initial_log_alpha: float = 0.0,
        learn_alpha: bool = True,
        target_update_tau: Annotated[float, Range(above=0, max=1)] = 0.005,
        target_update_period: Annotated[int, Range(min=1)] = 1,
        actor_optimizer: Optimizer | None = None,
        critic_optimizer: Optimizer | None = None,
        alpha_optimizer: Optimizer | None = None,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        parts = ActionParts(action_spec)
        check_networks(parts, actor_network_ctor, critic_network_ctor, q_network_ctor)
        actor = actor_network_ctor and actor_network_ctor(
            input_tensor_spec=observation_spec, action_spec=parts.continuous
        )
        inputs = (observation_spec, parts.continuous) if parts.continuous != () else observation_spec
        choices = {"action_spec": parts.discrete} if parts.discrete else {}
        critic_ctor: Any = q_network_ctor or critic_network_ctor
        loss = critic_loss_ctor()
        critics = Critics(
            lambda: critic_ctor(input_tensor_spec=inputs, output_tensor_spec=reward_spec, **choices),
            num_critic_replicas,
            reward_spec,
            reward_weights,
            loss,
            target_update_tau,
            target_update_period,
        )
        memory = SacState(actor.state_spec if actor else (), critics.state_spec, critics.state_spec)
        acting = replace(memory, critics=memory.critics if parts.discrete else (), target_critics=())
        carried = memory if config and config.use_rollout_state else acting
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
        self.predict_state_spec = acting if nest.leaves(acting) else ()
        self.sequence_length = loss.least_time_steps
        self.parts = parts
        self.actor_network = actor
        self.critics = critics
        if actor:
            check_squashed(actor, observation_spec, parts.continuous)
        discrete, continuous = target_entropies(parts, target_entropy)
        # One temperature for each part: their entropies have nothing to do with each other.
        self.temperature = EntropyTemperature(continuous, initial_log_alpha, learn_alpha) if actor else None
        self.choice_temperature = (
            EntropyTemperature(discrete, initial_log_alpha, learn_alpha) if parts.discrete else None
        )
        self._choice_distribution = Categorical.for_spec(parts.discrete) if parts.discrete else Categorical
        self._carries_all_memory = carried is memory
        self._corrects = self.needs_rollout_info = loss.needs_correction
        check_options(loss, config, learn_alpha, alpha_optimizer)
        if not self._carries_all_memory:
            self.learning_only = ("critics.target",) if parts.discrete else ("critics",)
        temperatures = [each for each in (self.temperature, self.choice_temperature) if each]
        owners = ((actor_optimizer, [actor]), (critic_optimizer, [critics]), (alpha_optimizer, temperatures))
        for owner, modules in owners:
            if owner is not None:
                self.add_optimizer(owner, [module for module in modules if module is not None])

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        state = state or SacState()
        action, next_state, _ = self._decide(time_step, state, greedy=self.epsilon_greedy < 1)
        if 0 < self.epsilon_greedy < 1:
            batch, device = len(time_step.step_type), time_step.step_type.device
            coins = torch.rand(batch, generator=self.generator, device=device) < self.epsilon_greedy
            sampled = self._decide(time_step, state, greedy=False)[:2]
            action, next_state = nest.where(coins, sampled, (action, next_state))
        return AlgStep(action, next_state if self.predict_state_spec else ())

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        inputs = self._critic_inputs(time_step.observation, self.parts.split(action)[1])
        values = self.critics.judge(inputs)
        _, _, policy = self._decide(time_step, state or SacState(), greedy=True)
        continuous = outline(policy.continuous)
        if policy.discrete is None:
            return Explanation(action_value=values, policy=continuous)
        outlined = self.parts.join(outline(policy.discrete), nest.leaves(continuous))
        return Explanation(q_values=values, policy=outlined)

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        state = state or SacState()
        action, next_state, policy = self._decide(time_step, state, greedy=False)
        if self._carries_all_memory:
            inputs = self._critic_inputs(time_step.observation, self.parts.split(action)[1])
            critics = next_state.critics if self.parts.discrete else self.critics.online(inputs, state.critics)[1]
            target = self.critics.target(inputs, state.target_critics)[1]
            next_state = replace(next_state, critics=critics, target_critics=target)
        info = policy.log_prob(*self.parts.split(action)) if self._corrects else ()
        return AlgStep(action, next_state if self.rollout_state_spec else (), info)

    def compute_loss(self, experience: Experience) -> LossInfo:
        time_step, state = experience.time_step, first_state(self.train_state_spec, experience) or SacState()
        taken = self.seen_in(time_step, slice(None, -1))
        discrete, continuous = self.parts.split(experience.action)
        values = self._values(self.critics.online, taken, continuous, state.critics)
        next_value = self._next_value(experience, state)
        correction = self._correction(experience, values, state) if self._corrects else None
        critic = self.critics.loss(time_step, self._of_choice(values, discrete), next_value, correction)
        if self._summarizes_policy and self.summary.enabled:
            self._summarize_policies(values, taken, state)
        extra = {"critic": critic.loss}
        if self.actor_network is not None:
            extra |= self._actor_losses(taken, state)
        elif self.choice_temperature is not None:
            extra["alpha_discrete"] = self.choice_temperature.loss(self._choice(values).entropy())
        if self.debug_summaries:
            self._summarize(critic)
        return LossInfo(sum(extra.values()), extra=extra, priority=critic.priority)

    def after_update(self) -> None:
        self.critics.update_targets()

    def _decide(self, time_step: TimeStep, state: SacState, greedy: bool) -> tuple[Nest, SacState, SacPolicy]:
        """One step: the continuous part first, then the choice that goes with it."""
        continuous: Nest = ()
        discrete: Nest = ()
        distribution = choice = None
        if self.actor_network is not None:
            distribution, actor_state = self.actor_network(time_step.observation, state.actor)
            continuous = distribution.mode() if greedy else distribution.sample(self.generator)
            state = replace(state, actor=actor_state)
        if self.parts.discrete:
            inputs = self._critic_inputs(time_step.observation, continuous)
            values, critic_state = self.critics.online(inputs, state.critics)
            choice = self._choice(values)
            discrete = choice.mode() if greedy else choice.sample(self.generator)
            state = replace(state, critics=critic_state)
        return self.parts.join(discrete, continuous), state, SacPolicy(distribution, choice)

    @torch.no_grad()
    def _next_value(self, experience: Experience, state: SacState) -> torch.Tensor:
        """The soft values `[T, B]` of all time steps but the first: of the lowest target critic, with entropy."""
        # Only networks with memory need to see the first time step to judge the later ones.
        seen = self.seen_in(experience.time_step, slice(0 if self.train_state_spec else 1, None))
        continuous, log_prob = self._sample(seen, state)
        value = self.critics.lowest(self._values(self.critics.target, seen, continuous, state.target_critics))
        bonus = torch.zeros_like(experience.time_step.discount[:1])
        if self.temperature is not None:
            bonus = -self.temperature.alpha() * log_prob
        if self.choice_temperature is not None:
            choice = self._choice(self._values(self.critics.online, seen, continuous, state.critics))
            value = self._mean(choice, value)
            bonus = bonus + self.choice_temperature.alpha() * choice.entropy()
        return (value + self.critics.spread(bonus))[-experience.length :]

    @torch.no_grad()
    def _correction(self, experience: Experience, values: torch.Tensor, state: SacState) -> Correction:
        """How the policy judges the stored actions; `values` are those of the critics for them."""
        taken = self.seen_in(experience.time_step, slice(None, -1))
        discrete, continuous = self.parts.split(experience.action)
        policy = SacPolicy(self._distribution(taken, state), self._choice(values) if self.parts.discrete else None)
        target_values = self._values(self.critics.target, taken, continuous, state.target_critics)
        return Correction(
            action_value=self.critics.lowest(self._of_choice(target_values, discrete)),
            ratio=(policy.log_prob(discrete, continuous) - experience.rollout_info).exp(),
        )

    def _actor_losses(self, seen: Seen, state: SacState) -> dict[str, torch.Tensor]:
        """Of the actor and of the temperatures, `[T, B]`."""
        assert self.temperature is not None
        continuous, log_prob = self._sample(seen, state)
        with self.critics.frozen() as critics:
            values = self._values(critics, seen, continuous, state.critics)
        value = self.critics.lowest(values)
        losses = {"alpha": self.temperature.loss(-log_prob)}
        if self.choice_temperature is not None:
            choice = self._choice(values)
            value = self._mean(choice, value)
            losses["alpha_discrete"] = self.choice_temperature.loss(choice.entropy())
        losses["actor"] = self.temperature.alpha() * log_prob - self.critics.total(value)
        return losses

    def _sample(self, seen: Seen, state: SacState) -> tuple[Nest, Any]:
        """Continuous actions `[T, B, ...]` with gradient, and their log-probabilities; () without a continuous part."""
        distribution = self._distribution(seen, state)
        return distribution.rsample_and_log_prob(self.generator) if distribution is not None else ((), ())

    def _distribution(self, seen: Seen, state: SacState) -> Any:
        """Of the continuous actions `[T, B, ...]`; None if there are none."""
        if self.actor_network is None:
            return None
        return unroll_network(self.actor_network, seen.observation, state.actor, seen.is_first)[0]

    def _values(self, critics: Any, seen: Seen, continuous: Nest, state: Nest) -> torch.Tensor:
        """`[N, T, B]`, with a dimension for the choices if there are any, and one for a vector reward."""
        inputs = self._critic_inputs(seen.observation, continuous)
        return unroll_network(critics, inputs, state, seen.is_first)[0]

    def _critic_inputs(self, observation: Nest, continuous: Nest) -> Nest:
        return (observation, continuous) if self.actor_network is not None else observation

    def _choice(self, values: torch.Tensor) -> Categorical:
        """The best soft policy over the choices, for values of all critics. Without gradient."""
        assert self.choice_temperature is not None
        totals = self.critics.total(self.critics.lowest(values.detach()))
        return self._choice_distribution(totals / self.choice_temperature.alpha())

    def _mean(self, choice: Categorical, values: torch.Tensor) -> torch.Tensor:
        """`[T, B, A]` or `[T, B, A, R]` values as their mean under `choice`."""
        probabilities = choice.logits.softmax(-1)
        vector = values.dim() > probabilities.dim()
        return (values * probabilities.unsqueeze(-1)).sum(-2) if vector else (values * probabilities).sum(-1)

    def _of_choice(self, values: torch.Tensor, discrete: Nest) -> torch.Tensor:
        """`[N, T, B, A]` or `[N, T, B, A, R]` values: those of the choices `[T, B]` that were taken."""
        if self.parts.discrete is None:
            return values
        index = (discrete - int(self.parts.discrete.minimum)).long()
        rest = values.shape[index.dim() + 2 :]
        index = index.reshape(1, *index.shape, 1, *(1 for _ in rest)).expand(len(values), *index.shape, 1, *rest)
        return values.gather(discrete.dim() + 1, index).squeeze(discrete.dim() + 1)

    @torch.no_grad()
    def _summarize_policies(self, values: torch.Tensor, seen: Seen, state: SacState) -> None:
        choice = self._choice(values) if self.parts.discrete else None
        policies = {"discrete": choice, "continuous": self._distribution(seen, state)}
        known = {name: policy for name, policy in policies.items() if policy is not None}
        self.summarize_policy(known if len(known) > 1 else next(iter(known.values())))

    def _summarize(self, critic: CriticLoss) -> None:
        summarize_critics(self.summary, critic)
        with self.summary.scope("Debug"):
            for name, each in (("alpha", self.temperature), ("alpha_discrete", self.choice_temperature)):
                if each is not None:
                    self.summary.scalar(name, each.alpha())

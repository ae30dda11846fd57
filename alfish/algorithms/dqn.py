"""Deep Q-learning (Mnih et al. 2015), with the extensions that can be had without distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any

import torch

from alfish import nest, specs
from alfish.algorithms.critics import checked_weights
from alfish.algorithms.explanation import Explanation
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.target_update import TargetUpdater
from alfish.algorithms.td_loss import TDLoss, as_sequence, mean_of_trained, refuse_correction
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.networks.action_mask import MASKED_LOGIT
from alfish.networks.full_precision import full_precision
from alfish.networks.network import unroll_network
from alfish.networks.noisy import noisy_layers
from alfish.networks.q import QNetwork
from alfish.optimizers.optimizer import Optimizer
from alfish.optimizers.schedulers import Scheduler, as_scheduler, is_zero
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, StepType, TimeStep


@configurable
class DqnAlgorithm(RLAlgorithm):
    """Q-learning from replay for one discrete action, with a target network.

    The other extensions are options of the parts: n-step targets (`TDLoss.num_steps`), dueling and noisy layers
    (`QNetwork.dueling`, `QNetwork.noise_std`), memory (`q_network_ctor = @QRnnNetwork`), prioritized replay
    (`TrainerConfig.priority_replay`; the priority of a sequence is its mean absolute TD error). Vector rewards have
    a Q value each; the action with the largest weighted sum is the best one.

    Args:
        observation_spec: what the network sees; a field `action_mask` says which actions are allowed.
        action_spec: what the environments take; one discrete action.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments.
        config: the options of the run.
        q_network_ctor: called with input_tensor_spec, action_spec and output_tensor_spec.
        critic_loss_ctor: makes the loss, which also knows the discount and the target.
        reward_weights: of a vector reward in what is maximised; None weighs all rewards by 1.
        rollout_epsilon_greedy: chance of a random action while training; 0 with noisy layers.
        double_q: the trained network chooses the action that the target network judges (van Hasselt et al. 2016);
            else the target network does both.
        burn_in_length: steps at the beginning of each sequence that are not trained but only bring the recurrent
            state up to date (Kapturowski et al. 2019).
        target_update_tau: share of the trained network in the target network at each of its updates; 1 copies it.
        target_update_period: optimizer steps between updates of the target network.
        optimizer: owns the parameters of the trained network.
        debug_summaries: write additional summaries.
    """

    on_policy: bool = False
    provides_priority: bool = True
    learning_only = ("target_q_network",)
    reward_weights: torch.Tensor
    idle_options: Mapping[str, str] = {
        "temporally_independent_train_step": "sequences go through its network at once in any case"
    }

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        q_network_ctor: Callable[..., Any] = QNetwork,
        critic_loss_ctor: Callable[..., TDLoss] = TDLoss,
        reward_weights: Sequence[float] | None = None,
        rollout_epsilon_greedy: Annotated[float, Range(min=0, max=1)] | Scheduler = 0.1,
        double_q: bool = True,
        burn_in_length: Annotated[int, Range(min=0)] = 0,
        target_update_tau: Annotated[float, Range(above=0, max=1)] = 0.05,
        target_update_period: Annotated[int, Range(min=1)] = 1,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        _check_action(action_spec, env)
        q_network = q_network_ctor(
            input_tensor_spec=observation_spec, action_spec=action_spec, output_tensor_spec=reward_spec
        )
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            config,
            train_state_spec=q_network.state_spec,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self.q_network = q_network
        self.target_q_network = deepcopy(q_network)
        self.target_updater = TargetUpdater(
            self.q_network, self.target_q_network, target_update_tau, target_update_period
        )
        self.loss = critic_loss_ctor()
        refuse_correction(self.loss, "DqnAlgorithm")
        self.sequence_length = burn_in_length + self.loss.least_time_steps
        self._check_sequences(burn_in_length, config)
        self._burn_in = burn_in_length
        self._epsilon = as_scheduler(rollout_epsilon_greedy)
        self._double_q = double_q
        self._first_action = int(action_spec.minimum)
        self._is_vector = reward_spec.shape != ()
        self.register_buffer("reward_weights", checked_weights(reward_weights, reward_spec), persistent=False)
        self._noisy_online, self._noisy_all = noisy_layers(q_network), noisy_layers(self)

    # Acting

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        for layer in self._noisy_online:
            layer.reset_noise(self.generator)
        return self._step(time_step, state, self._epsilon(self.progress))

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        return self._step(time_step, state, self.epsilon_greedy)

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        q, _ = self.q_network(time_step.observation, state)
        return Explanation(q_values=self._one_per_action(q))

    def _step(self, time_step: TimeStep, state: Nest, epsilon: float) -> AlgStep:
        q, state = self.q_network(time_step.observation, state)
        q = self._one_per_action(q)
        best = q.argmax(-1)
        if not is_zero(epsilon):
            chances = torch.rand(q.shape, generator=self.generator, device=self.generator.device)
            coin = torch.rand(best.shape, generator=self.generator, device=self.generator.device)
            # The largest of uniform numbers is equally likely to be at any of the allowed actions.
            any_allowed = chances.to(q.device).masked_fill(q <= MASKED_LOGIT / 2, -1.0).argmax(-1)
            best = torch.where(coin.to(q.device) < epsilon, any_allowed, best)
        return AlgStep(best + self._first_action if self._first_action else best, state)

    # Learning

    def summarize_iteration(self) -> None:
        self.summary.scalar("Exploration/epsilon", lambda: self._epsilon(self.progress))

    def compute_loss(self, experience: Experience) -> LossInfo:
        for layer in self._noisy_all:
            layer.reset_noise(self.generator)
        states = self._states_after_burn_in(experience)
        time_step, action = experience.time_step, experience.action
        valid = (time_step.step_type[:-1] != StepType.LAST).float()
        if self._burn_in:
            time_step, action = nest.map(lambda leaf: leaf[self._burn_in :], (time_step, action))
        num_trained = self.loss.num_trained(len(action))
        q, next_values = self._judge(time_step, states, num_trained)
        choice = action[:num_trained]
        q_taken = self._pick(q, choice - self._first_action if self._first_action else choice)
        target = self.loss.target(time_step, next_values)
        loss, error = self.loss(q_taken, target), (q_taken.detach() - target).abs()
        if self._is_vector:
            loss, error = loss.sum(-1), error.sum(-1)
        trained = valid[self._burn_in : self._burn_in + num_trained]
        if self.debug_summaries:
            self.summary.histogram("Debug/q", q_taken)
            self.summary.histogram("Debug/target", target)
        return LossInfo(
            loss=as_sequence(loss, valid, self._burn_in),
            extra={"td_error": error, "q": q_taken},
            priority=mean_of_trained(error, trained),
        )

    def after_update(self) -> None:
        self.target_updater.step()

    def _judge(
        self, time_step: TimeStep, states: tuple[Nest, Nest], num_trained: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Q of the trained steps, with gradient, and the values of all time steps but the first, without."""
        observation = time_step.observation
        if self.train_state_spec != ():
            is_first = time_step.is_first()
            q, _ = unroll_network(self.q_network, observation, states[0], is_first)
            with torch.no_grad():
                target_q, _ = unroll_network(self.target_q_network, observation, states[1], is_first)
                values = self._best_value(target_q, q)
            return q[:num_trained], values[1:]
        # Without memory only the trained steps need a gradient, and no target bootstraps from the first one.
        q, _ = unroll_network(self.q_network, nest.map(lambda leaf: leaf[:num_trained], observation))
        with torch.no_grad():
            following = nest.map(lambda leaf: leaf[1:], observation)
            target_q, _ = unroll_network(self.target_q_network, following)
            chooser = unroll_network(self.q_network, following)[0] if self._double_q else target_q
            return q, self._best_value(target_q, chooser)

    def _best_value(self, target_q: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        if not (self._double_q or self._is_vector):
            return target_q.amax(-1)
        chooser = q if self._double_q else target_q
        return self._pick(target_q, self._one_per_action(chooser).argmax(-1))

    def _states_after_burn_in(self, experience: Experience) -> tuple[Nest, Nest]:
        """The states that the trained and the target network begin the trained part with.

        Both begin the sequence with the stored state, which is the trained network's, or with zeros.
        """
        step_type = experience.time_step.step_type
        state = nest.index(experience.state, 0) or specs.zeros(
            self.train_state_spec, step_type.shape[1], device=step_type.device
        )
        if self._burn_in == 0 or state == ():
            return state, state
        steps = nest.map(lambda leaf: leaf[: self._burn_in], experience.time_step)
        with torch.no_grad():
            online, target = (
                unroll_network(network, steps.observation, state, steps.is_first())[1]
                for network in (self.q_network, self.target_q_network)
            )
        return online, target

    def _one_per_action(self, q: torch.Tensor) -> torch.Tensor:
        """`[..., N, R]` as `[..., N]`."""
        if not self._is_vector:
            return q
        with full_precision(q):
            return q @ self.reward_weights

    def _pick(self, q: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
        """The values of the chosen actions: of `[..., N]` or `[..., N, R]` at `[...]`."""
        if not self._is_vector:
            return q.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
        return q.gather(-2, choice[..., None, None].expand(*choice.shape, 1, q.shape[-1])).squeeze(-2)

    def _check_sequences(self, burn_in: int, config: TrainerConfig | None) -> None:
        if burn_in and self.train_state_spec == ():
            raise ConfigError(
                f"DqnAlgorithm.burn_in_length = {burn_in}: the network has no memory to warm up. Use 0, or "
                "DqnAlgorithm.q_network_ctor = @QRnnNetwork"
            )
        if config is None or config.mini_batch_length is None:
            return
        length = config.mini_batch_length + config.whole_replay_buffer_training
        if length < self.sequence_length:
            raise ConfigError(
                f"TrainerConfig.mini_batch_length = {config.mini_batch_length} leaves nothing to train: with a burn-in "
                f"of {burn_in} and {self.loss.least_time_steps - 1}-step targets it takes {self.sequence_length} time "
                "steps, or None"
            )


def _check_action(spec: Nest, env: Environment | None) -> None:
    if nest.is_leaf(spec) and spec.is_discrete and spec.shape == ():
        return
    where = env.name if env is not None else "the environment"
    if nest.is_leaf(spec):
        shape = ", ".join(map(str, spec.shape)) + ("," if len(spec.shape) == 1 else "")
        has = f"{'several discrete choices, shape ' if spec.is_discrete else 'Box'}({shape})"
        instead = "PPO" if spec.is_discrete else "SAC, TD3 or DDPG"
    else:
        has, instead = "nested actions", "SAC or PPO"
    raise ConfigError(f"DqnAlgorithm needs one discrete action (Discrete), but {where} has {has}: use {instead}")

"""Behavioural cloning: do what was done in the data (Pomerleau 1991)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from alfish.algorithms.actor_critic import epsilon_greedy_action
from alfish.algorithms.critics import first_state
from alfish.algorithms.explanation import Explanation, outline
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.network import unroll_network
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep


@configurable
class BcAlgorithm(RLAlgorithm):
    """Makes the recorded actions likely: a policy, trained by maximum likelihood, without rewards.

    It learns from `TrainerConfig.offline_buffer_dir` alone and never acts in the training environments, since from
    its own actions there is nothing to imitate. A network with memory learns sequences of
    `TrainerConfig.mini_batch_length` time steps.

    Args:
        observation_spec: what the network sees.
        action_spec: what the environments take; any nest of discrete and continuous actions.
        reward_spec: of rewards, which it does not look at.
        env: the environments it is evaluated in.
        config: the options of the run.
        actor_network_ctor: called with input_tensor_spec and action_spec: @ActorDistributionNetwork, or with memory
            @ActorDistributionRnnNetwork.
        optimizer: owns the parameters of the network.
        debug_summaries: write additional summaries.
    """

    on_policy: bool = False
    offline_only: bool = True
    has_action_distribution: bool = True
    idle_options: Mapping[str, str] = dict.fromkeys(
        (
            "rl_train_after_update_steps",
            "rl_train_every_update_steps",
            "unroll_length",
            "unroll_episodes",
            "initial_collect_steps",
            "num_updates_per_env_step",
            "async_unroll",
        ),
        "it never acts in the training environments",
    ) | {"temporally_independent_train_step": "sequences go through its network at once in any case"}

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        actor_network_ctor: Callable[..., Any] = ActorDistributionNetwork,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            config,
            train_state_spec=actor.state_spec,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self.actor_network = actor

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        distribution, state = self.actor_network(time_step.observation, state)
        return AlgStep(distribution.sample(self.generator), state)

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        distribution, state = self.actor_network(time_step.observation, state)
        return AlgStep(epsilon_greedy_action(distribution, self.epsilon_greedy, self.generator), state)

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        distribution, _ = self.actor_network(time_step.observation, state)
        return Explanation(policy=outline(distribution))

    def compute_loss(self, experience: Experience) -> LossInfo:
        taken = self.seen_in(experience.time_step, slice(None, -1))
        state = first_state(self.train_state_spec, experience)
        distribution, _ = unroll_network(self.actor_network, taken.observation, state, taken.is_first)
        self.summarize_policy(distribution)
        loss = -distribution.log_prob(experience.action)
        if self.debug_summaries:
            self.summary.scalar("Debug/entropy", distribution.entropy())
        return LossInfo(loss, extra={"negative_log_likelihood": loss})

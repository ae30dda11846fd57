"""Composition: an agent made of a reinforcement-learning algorithm and an optimizer above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alfish.algorithms.explanation import Explanation
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.optimizers.optimizer import Optimizer
from alfish.specs import TensorSpec
from alfish.types import AlgStep, Experience, LossInfo, Nest, TimeStep


@configurable
class Agent(RLAlgorithm):
    """Passes everything on to its `rl_algorithm`; its optimizer owns what that one leaves without an owner.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        env: the training environments.
        config: the options of the run.
        rl_algorithm_cls: makes the algorithm; called like `TrainerConfig.algorithm_ctor`.
        optimizer: owns every parameter that no optimizer of the algorithm owns.
        debug_summaries: write additional summaries.
    """

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        rl_algorithm_cls: Callable[..., RLAlgorithm] = PPOAlgorithm,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        rl_algorithm = rl_algorithm_cls(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            env=env,
            config=config,
            debug_summaries=debug_summaries,
        )
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            config,
            train_state_spec=rl_algorithm.train_state_spec,
            rollout_state_spec=rl_algorithm.rollout_state_spec,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self.rl_algorithm = rl_algorithm
        self.predict_state_spec = rl_algorithm.predict_state_spec
        self.on_policy = rl_algorithm.on_policy
        self.single_update = rl_algorithm.single_update
        self.sequence_length = rl_algorithm.sequence_length
        self.provides_priority = rl_algorithm.provides_priority
        self.needs_rollout_info = rl_algorithm.needs_rollout_info
        self.offline_only = rl_algorithm.offline_only
        self.has_action_distribution = rl_algorithm.has_action_distribution
        self.idle_options = rl_algorithm.idle_options

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        return self.rl_algorithm.rollout_step(time_step, state)

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        return self.rl_algorithm.predict_step(time_step, state)

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        return self.rl_algorithm.explain_step(time_step, state, action)

    def preprocess_experience(self, experience: Experience) -> Experience:
        return self.rl_algorithm.preprocess_experience(experience)

    def preprocess_pass(self, rollout_info: Nest, sizes: Sequence[int]) -> Nest:
        return self.rl_algorithm.preprocess_pass(rollout_info, sizes)

    def train_step(self, time_step: TimeStep, state: Nest, rollout_info: Nest) -> AlgStep:
        return self.rl_algorithm.train_step(time_step, state, rollout_info)

    def train_steps(self, time_steps: TimeStep, state: Nest, rollout_info: Nest) -> Nest:
        return self.rl_algorithm.train_steps(time_steps, state, rollout_info)

    def calc_loss(self, info: Nest) -> LossInfo:
        return self.rl_algorithm.calc_loss(info)

    def compute_loss(self, experience: Experience) -> LossInfo:
        return self.rl_algorithm.compute_loss(experience)

    def wants_more_updates(self, loss_info: LossInfo) -> bool:
        return self.rl_algorithm.wants_more_updates(loss_info)

    def after_update(self) -> None:
        self.rl_algorithm.after_update()

    def after_train_iter(self, experience: Experience) -> None:
        self.rl_algorithm.after_train_iter(experience)

    @property
    def looks_at_unrolls(self) -> bool:
        return self.rl_algorithm.looks_at_unrolls

    def summarize_iteration(self) -> None:
        self.rl_algorithm.summarize_iteration()

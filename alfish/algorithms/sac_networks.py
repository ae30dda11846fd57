"""Whether what is given to SAC fits the kind of its actions and itself, said before anything is trained."""

from __future__ import annotations

from typing import Any

from alfish import nest, specs
from alfish.algorithms.action_parts import ActionParts
from alfish.algorithms.entropy_temperature import default_target_entropy
from alfish.algorithms.td_loss import TDLoss
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.errors import ConfigError
from alfish.networks.distributions import SquashedNormal
from alfish.types import Nest

_CONTINUOUS = "actor_network_ctor = @ActorDistributionNetwork"
_CRITIC = "critic_network_ctor = @CriticNetwork"
_Q = "q_network_ctor = @QNetwork"
_WANTED = {"continuous": (_CONTINUOUS, _CRITIC), "discrete": (_Q,), "mixed": (_CONTINUOUS, _Q)}


def check_networks(parts: ActionParts, actor: Any, critic: Any, q: Any) -> None:
    """Continuous: an actor and a critic. Discrete: a Q-network. Mixed: an actor and a Q-network."""
    kind = "continuous" if parts.discrete is None else "discrete" if parts.continuous == () else "mixed"
    given = {"actor_network_ctor": actor, "critic_network_ctor": critic, "q_network_ctor": q}
    wanted = {line.partition(" ")[0]: line for line in _WANTED[kind]}
    missing = [line for name, line in wanted.items() if given[name] is None]
    extra = [name for name, value in given.items() if value is not None and name not in wanted]
    if missing:
        lines = "".join(f"\n    SacAlgorithm.{line}" for line in missing)
        raise ConfigError(f"SacAlgorithm: a network for {kind} actions is missing. Add{lines}")
    if extra:
        names = ", ".join(f"SacAlgorithm.{name}" for name in extra)
        raise ConfigError(f"{names}: has no use for {kind} actions, which take {' and '.join(wanted)}. Remove the line")


def check_squashed(actor: Any, observation_spec: Nest, action_spec: Nest) -> None:
    """Samples beyond the bounds would be clipped by the environment, and their log-probabilities wrong."""
    distribution, _ = actor(specs.zeros(observation_spec, 1), specs.zeros(actor.state_spec, 1))
    parts = [distribution] if nest.is_leaf(action_spec) else _leaves(distribution.parts)
    for spec, part in zip(nest.leaves(action_spec), parts, strict=True):
        if spec.is_bounded and not isinstance(part, SquashedNormal):
            raise ConfigError(
                f"SacAlgorithm.actor_network_ctor makes a {type(part).__name__}, whose samples leave the bounds "
                f"{spec.minimum} .. {spec.maximum} of the action. Add\n    "
                f"{type(actor).__name__}.continuous_projection_net_ctor = @StableNormalProjectionNetwork"
            )


def check_options(loss: TDLoss, config: TrainerConfig | None, learn_alpha: bool, alpha_optimizer: Any) -> None:
    """What would be ignored, or make the numbers wrong, without a word."""
    if alpha_optimizer is not None and not learn_alpha:
        raise ConfigError(
            "SacAlgorithm.alpha_optimizer has nothing to optimize: SacAlgorithm.learn_alpha = False keeps alpha as it "
            "is. Remove one of the two lines"
        )
    if loss.needs_correction and config is not None and config.random_initial_collect:
        raise ConfigError(
            f"SacAlgorithm.critic_loss_ctor = @{type(loss).__name__} needs the probability of each stored action under "
            "the policy; random actions have none. Set TrainerConfig.random_initial_collect = False"
        )


def target_entropies(parts: ActionParts, given: Any) -> tuple[float, float]:
    """Of the discrete and of the continuous part; 0 for one that there is not."""
    mixed = parts.discrete is not None and parts.continuous != ()
    if mixed and given is not None and not isinstance(given, (tuple, list)):
        raise ConfigError(
            f"SacAlgorithm.target_entropy = {given}: mixed actions need a pair (discrete, continuous), or None"
        )
    if mixed and given is not None:
        return float(given[0]), float(given[1])
    if given is not None and isinstance(given, (tuple, list)):
        raise ConfigError(f"SacAlgorithm.target_entropy = {given}: a pair is for mixed actions; give one number")
    discrete = default_target_entropy(parts.discrete if parts.discrete else ()) if given is None else given
    continuous = default_target_entropy(parts.continuous) if given is None else given
    return float(discrete), float(continuous)


def _leaves(parts: Nest) -> list[Any]:
    if isinstance(parts, (tuple, list, dict)):
        children = parts.values() if isinstance(parts, dict) else parts
        return [leaf for child in children for leaf in _leaves(child)]
    return [parts]

"""Mixed precision: the networks compute in 16 bits, and everybody else sees 32."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms import precision
from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.ddpg import DdpgAlgorithm
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.precision import LossScaler, Precision
from alfish.algorithms.sac import SacAlgorithm
from alfish.algorithms.sarsa import SarsaAlgorithm
from alfish.algorithms.td3 import Td3Algorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems
from alfish.errors import NumericFault
from alfish.networks.actor import ActorNetwork
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.critic import CriticNetwork
from alfish.networks.projection import StableNormalProjectionNetwork
from alfish.networks.q import QNetwork
from alfish.optimizers.adam import Adam
from alfish.optimizers.sgd import SGD
from tests.algorithms.off_policy_runs import final_reward, start_replay
from tests.algorithms.runs import start_run

SMALL = (16,)
CONTINUOUS = {"action_type": "continuous"}
CRITIC = partial(CriticNetwork, joint_fc_layer_params=SMALL)
SQUASHED = partial(
    ActorDistributionNetwork,
    fc_layer_params=SMALL,
    continuous_projection_net_ctor=StableNormalProjectionNetwork,
)
DETERMINISTIC = partial(ActorNetwork, fc_layer_params=SMALL)
TARGETS = {"target_update_tau": 0.05}
REPLAYED: dict[str, dict[str, Any]] = {
    "dqn": {"cls": DqnAlgorithm, "q_network_ctor": partial(QNetwork, fc_layer_params=SMALL), **TARGETS},
    "sac": {
        "cls": SacAlgorithm,
        "env_kwargs": CONTINUOUS,
        "actor_network_ctor": SQUASHED,
        "critic_network_ctor": CRITIC,
        **TARGETS,
    },
    "sarsa": {
        "cls": SarsaAlgorithm,
        "env_kwargs": CONTINUOUS,
        "actor_network_ctor": SQUASHED,
        "critic_network_ctor": CRITIC,
        **TARGETS,
    },
    "ddpg": {
        "cls": DdpgAlgorithm,
        "env_kwargs": CONTINUOUS,
        "actor_network_ctor": DETERMINISTIC,
        "critic_network_ctor": CRITIC,
        **TARGETS,
    },
    "td3": {
        "cls": Td3Algorithm,
        "env_kwargs": CONTINUOUS,
        "actor_network_ctor": DETERMINISTIC,
        "critic_network_ctor": CRITIC,
        **TARGETS,
    },
}
UNROLLED: dict[str, dict[str, Any]] = {
    "ppo": {"cls": PPOAlgorithm, "mini_batch_size": 16, "mini_batch_length": 1},
    "ppo_lstm": {"cls": PPOAlgorithm, "recurrent": True},
    "a2c": {"cls": ActorCriticAlgorithm},
    "a2c_with_grad": {"cls": ActorCriticAlgorithm, "unroll_with_grad": True},
}
ALL = [*REPLAYED, *UNROLLED]


def start(name: str, enable_amp: bool = True) -> Any:
    if name in REPLAYED:
        return start_replay(**REPLAYED[name], options={"enable_amp": enable_amp})
    return start_run(
        env_name="alfish/PolicyUnittest-v0", optimizer=Adam(lr=1e-2), enable_amp=enable_amp, **UNROLLED[name]
    )


def train(name: str, iterations: int, enable_amp: bool = True) -> Any:
    algorithm = start(name, enable_amp)
    for _ in range(iterations):
        algorithm.train_iter()
    return algorithm


def weights(algorithm: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach()


@pytest.mark.parametrize("name", ALL)
def test_every_algorithm_trains_nearly_as_in_float32(name: str) -> None:
    mixed, exact = train(name, 5), train(name, 5, enable_amp=False)
    assert not torch.equal(weights(mixed), weights(exact))
    torch.testing.assert_close(weights(mixed), weights(exact), atol=0.05, rtol=0)
    # A gradient that is lost on the way, as by a cast that is made without one and used again, is none.
    graded = {n for n, p in exact.named_parameters() if p.grad is not None and p.grad.any()}
    assert graded == {n for n, p in mixed.named_parameters() if p.grad is not None and p.grad.any()}


@pytest.mark.parametrize("name", ["ppo", "sac", "dqn"])
def test_it_learns(name: str) -> None:
    assert final_reward(train(name, 60 if name == "ppo" else 400), steps=100).item() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("name", ["ppo", "a2c_with_grad", "sac"])
def test_it_holds_in_unroll_training_and_loss_and_nowhere_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = start(name)
    seen: dict[str, set[bool]] = {}

    def watch(method: str) -> None:
        original = getattr(algorithm, method)

        def watched(*arguments: Any) -> Any:
            seen.setdefault(method, set()).add(torch.is_autocast_enabled("cpu"))
            return original(*arguments)

        monkeypatch.setattr(algorithm, method, watched)

    loss = "compute_loss" if name == "sac" else "calc_loss"
    inside = ["rollout_step", "preprocess_experience", loss]
    inside += ["train_steps"] if name == "ppo" else []
    outside = ["predict_step", "after_update", "after_train_iter"]
    for method in (*inside, *outside):
        watch(method)
    algorithm.train_iter()
    final_reward(algorithm, steps=1)
    assert seen == {**{method: {True} for method in inside}, **{method: {False} for method in outside}}


@pytest.mark.parametrize("name", ALL)
def test_what_is_kept_is_float32(name: str) -> None:
    algorithm = start(name)
    seen: list[torch.dtype] = []
    step = algorithm._env.step
    algorithm._env.step = lambda action: seen.append(action.dtype) or step(action)
    experience = algorithm.unroll(3)
    kept = nest.leaves((experience, algorithm._unroller._actor.state))
    algorithm.train_iter()
    optimizers = algorithm.loop.updater.ownership.optimizers.values()
    kept += [leaf for each in optimizers for state in each.state_dict().values() for leaf in state.values()]
    kept += list(algorithm.parameters())
    kept += [parameter.grad for parameter in algorithm.parameters() if parameter.grad is not None]
    assert not {leaf.dtype for leaf in kept} & {torch.bfloat16, torch.float16}
    assert set(seen) == {nest.first_leaf(algorithm.action_spec).dtype}


def test_what_an_algorithm_leaves_in_16_bits_is_kept_in_32_with_its_graph() -> None:
    leaf = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    kept = Precision("cpu", torch.bfloat16).kept({"a": leaf, "b": torch.ones(2, dtype=torch.int64), "c": 1.5})
    assert kept["a"].dtype == torch.float32
    assert kept["a"].grad_fn is not None
    assert kept["b"].dtype == torch.int64
    assert kept["c"] == 1.5


def test_without_it_nothing_is_done() -> None:
    plain = Precision("cpu")
    values = {"a": torch.ones(1)}
    assert plain.kept(values) is values
    assert plain.make_scaler() is None
    with plain.autocast():
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("device", "has_bfloat16", "dtype"),
    [("cpu", False, torch.bfloat16), ("cuda", True, torch.bfloat16), ("cuda:1", False, torch.float16)],
)
def test_float16_only_on_gpus_without_bfloat16(
    device: str, has_bfloat16: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: has_bfloat16)
    chosen = Precision.of(TrainerConfig(algorithm_ctor=PPOAlgorithm, device=device, enable_amp=True))
    assert chosen == Precision(device.partition(":")[0], dtype)
    assert (chosen.make_scaler() is not None) == (dtype == torch.float16)


def test_a_device_without_autocast_is_refused() -> None:
    with pytest.raises(ConfigProblems, match="no autocast on 'meta'"):
        Precision.of(TrainerConfig(algorithm_ctor=PPOAlgorithm, device="meta", enable_amp=True))


def test_the_scale_is_halved_by_an_overflow_and_doubled_after_enough_updates_without() -> None:
    scaler = LossScaler(scale=8.0, growth_interval=3)
    assert scaler.scaled(torch.tensor(0.5)).item() == 4.0
    gradient = torch.tensor([16.0])
    scaler.unscale([gradient])
    assert gradient.item() == 2.0
    assert [scaler.is_overflow({"a": norm}) for norm in (1.0, 1.0, float("inf"))] == [False, False, True]
    assert scaler.scale == 4.0
    assert not any(scaler.is_overflow({"a": 1.0}) for _ in range(3))
    assert scaler.scale == 8.0


def test_without_scaling_a_gradient_that_is_not_finite_is_no_overflow() -> None:
    scaler = LossScaler(scale=2.0)
    assert scaler.is_overflow({"a": float("nan")})
    assert scaler.scale == 1.0
    assert not scaler.is_overflow({"a": float("nan")})


@pytest.fixture
def in_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an older GPU; the CPU can do it as well."""
    monkeypatch.setattr(precision, "_reduced_dtype", lambda device: torch.float16)


@pytest.mark.parametrize("name", ["a2c", "sac"])
def test_float16_trains_with_a_scaled_loss(name: str, in_float16: None) -> None:
    mixed, exact = train(name, 5), train(name, 5, enable_amp=False)
    assert not torch.equal(weights(mixed), weights(exact))
    torch.testing.assert_close(weights(mixed), weights(exact), atol=0.05, rtol=0)
    assert mixed.progress.updates + mixed.loop.updater.skipped == exact.progress.updates


def test_an_overflow_skips_the_update_and_the_run_goes_on(in_float16: None) -> None:
    algorithm = start("a2c")
    scaler = algorithm.loop.updater._scaler
    scaler.scale = 2.0**127
    before = weights(algorithm).clone()
    algorithm.train_iter()
    assert torch.equal(weights(algorithm), before)
    assert (algorithm.loop.updater.skipped, scaler.scale) == (1, 2.0**126)
    scaler.scale = 1.0
    algorithm.train_iter()
    assert not torch.equal(weights(algorithm), before)


def test_a_gradient_that_is_really_not_finite_still_stops_the_run(in_float16: None) -> None:
    algorithm = start("a2c")
    algorithm.loop.updater._scaler.scale = 1.0
    next(iter(algorithm.parameters())).register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(NumericFault, match="gradient norm"):
        algorithm.train_iter()


def test_the_scale_goes_through_the_checkpoint(in_float16: None) -> None:
    algorithm, other = start("a2c"), start("a2c")
    algorithm.loop.updater._scaler.scale = 32.0
    algorithm.train_iter()
    other.loop.load_state_dict(algorithm.loop.state_dict(), None)
    assert other.loop.updater._scaler.state_dict() == {"scale": 32.0, "num_good": 1}


def test_the_gradient_is_that_of_the_loss_not_of_the_scaled_one(in_float16: None) -> None:
    mixed, exact = (start_run(optimizer=SGD(lr=0.1), enable_amp=enable_amp) for enable_amp in (True, False))
    mixed.loop.updater._scaler.scale = 64.0
    for algorithm in (mixed, exact):
        algorithm.train_iter()
    assert mixed.progress.updates == 1
    torch.testing.assert_close(weights(mixed), weights(exact), atol=0.01, rtol=0)

"""Who takes part in which workload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contestant:
    """A library on a workload.

    Args:
        name: in the table.
        module: of this package that measures it.
        variant: what of it.
        role: 'alfish', 'peer', or 'limit': hand-written.
        threads: the numbers of torch threads to choose the best from.
        home: run by the interpreter of this name of `tools/peers.py`; '' for alfish's own.
    """

    name: str
    module: str
    variant: str = ""
    role: str = "peer"
    threads: tuple[int, ...] = (1,)
    home: str = ""


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    contestants: tuple[Contestant, ...]

    @property
    def reference(self) -> str:
        """Whom the others are compared with: the first."""
        return self.contestants[0].name


def sb3(module: str = "sb3_runs", threads: tuple[int, ...] = (1,)) -> Contestant:
    return Contestant("stable-baselines3", module, threads=threads, home=PEERS)


def tianshou(module: str = "tianshou_runs", threads: tuple[int, ...] = (1,)) -> Contestant:
    return Contestant("tianshou", module, threads=threads, home=PEERS)


def torchrl(module: str) -> Contestant:
    return Contestant("torchrl", module, home=PEERS)


def cleanrl(module: str, threads: tuple[int, ...] = (1,)) -> Contestant:
    return Contestant("cleanrl-style", module, threads=threads)


def limit(module: str, *variants: str, threads: tuple[int, ...] = (1,)) -> tuple[Contestant, ...]:
    return tuple(_variant("hand-written", module, each, "limit", threads) for each in variants)


def alfish(*variants: str, module: str = "alfish_runs", threads: tuple[int, ...] = (1,)) -> tuple[Contestant, ...]:
    return tuple(_variant("alfish", module, each, "alfish", threads) for each in variants)


def _variant(name: str, module: str, variant: str, role: str, threads: tuple[int, ...]) -> Contestant:
    """'fastest' is to have the choice of envpool, which the peers' environment has and alfish's own need not have."""
    takes_envpool = any(backend in variant for backend in ("envpool", "fastest"))
    return Contestant(f"{name} {variant}".strip(), module, variant, role, threads, PEERS if takes_envpool else "")


PEERS, SAMPLE_FACTORY = "peers", "peers-sample-factory"
BOTH = (1, 2)
LARGE = (2,)
RAW_VECTORS = ("sync", "vector", "vector-in-torch", "envpool")
BACKENDS = ("auto", "vector", "envpool", "fastest")
PPO_STYLE, OFF_POLICY_STYLE = "cleanrl_style_ppo", "cleanrl_style_off_policy"

WORKLOADS = (
    Workload(
        "W1",
        "PPO on CartPole-v1: 8 environments, 128 steps, 4 passes of 4 mini batches, MLP 64x64",
        (
            sb3(),
            tianshou(),
            torchrl("torchrl_runs"),
            Contestant("sample-factory", "sample_factory_runs", home=SAMPLE_FACTORY),
            cleanrl(PPO_STYLE),
            *limit("limit_ppo", "sync", "vector", "vector+compile", "envpool+compile"),
            *alfish("auto", "auto+summaries", "auto+compile", "fastest", "fastest+compile", "envpool+compile"),
        ),
    ),
    Workload(
        "W2",
        "PPO on HalfCheetah-v5: 8 environments, 256 steps, 10 passes, mini batch 64, MLP 64x64",
        (
            sb3(),
            tianshou(),
            cleanrl(PPO_STYLE),
            *limit("limit_ppo", "sync", "sync+compile", "envpool+compile"),
            *alfish("auto", "auto+compile", "envpool", "envpool+compile", "fastest", "fastest+compile"),
        ),
    ),
    Workload(
        "W3",
        "PPO on Pong: 84x84x4, Nature CNN, 8 environments, 128 steps, 4 passes of 4 mini batches",
        (
            sb3(threads=LARGE),
            tianshou(threads=LARGE),
            cleanrl(PPO_STYLE, threads=LARGE),
            *limit("limit_ppo", "sync", "vector", threads=LARGE),
            *alfish("auto", "auto+compile", "vector", "vector+compile", "fastest", threads=LARGE),
        ),
    ),
    Workload(
        "W4-SAC",
        "SAC on HalfCheetah-v5: MLP 256x256, batch 256, one update per step",
        (
            sb3(threads=BOTH),
            tianshou(threads=BOTH),
            cleanrl(OFF_POLICY_STYLE, threads=BOTH),
            *limit("limit_sac", "eager", "compile", threads=BOTH),
            *alfish("auto", "auto+compile", threads=BOTH),
        ),
    ),
    Workload(
        "W4-TD3",
        "TD3 on HalfCheetah-v5: MLP 256x256, batch 256, one update per step",
        (
            sb3(threads=BOTH),
            tianshou(threads=BOTH),
            cleanrl(OFF_POLICY_STYLE, threads=BOTH),
            *limit("limit_td3", "eager", "compile", threads=BOTH),
            *alfish("auto", "auto+compile", threads=BOTH),
        ),
    ),
    Workload(
        "W5",
        "DQN on CartPole-v1: MLP 128x128, batch 128, one update per step",
        (
            cleanrl(OFF_POLICY_STYLE),
            sb3(),
            tianshou(),
            *limit("limit_dqn", "eager", "compile"),
            *alfish("auto", "auto+compile", "fastest"),
        ),
    ),
    Workload(
        "W5-prioritized",
        "DQN on CartPole-v1 with prioritized replay: MLP 128x128, batch 128, one update per step",
        (tianshou(), *alfish("auto", "auto+compile")),
    ),
    Workload(
        "W6",
        "replay: 1M rows of 17 floats; stacks of four 84x84 frames from 100 000; per call",
        (
            sb3("replay_sb3"),
            tianshou("replay_tianshou"),
            torchrl("replay_torchrl"),
            Contestant("cpprb", "replay_cpprb", home=PEERS),
            *limit("replay_limit", ""),
            *alfish("", module="replay_alfish"),
        ),
    ),
    Workload(
        "W7",
        "vector environments alone, random actions drawn beforehand",
        (
            Contestant("stable-baselines3", "vector_runs", "stable-baselines3", home=PEERS),
            Contestant("tianshou", "vector_runs", "tianshou", home=PEERS),
            *(Contestant(f"raw {each}", "vector_runs", each, "limit", home=PEERS) for each in RAW_VECTORS),
            *(Contestant(f"alfish {each}", "vector_runs", f"alfish-{each}", "alfish", home=PEERS) for each in BACKENDS),
        ),
    ),
    Workload(
        "W8",
        "growth: environments (PPO, CartPole-v1), stored rows (SAC, HalfCheetah-v5), length of recurrent sequences",
        alfish("auto", "fastest", module="scaling"),
    ),
)

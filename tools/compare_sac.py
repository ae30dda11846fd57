"""SAC of alfish, stable-baselines3 and Tianshou on the same task, for the same steps, with the same settings.

    python tools/compare_sac.py [--env_name HalfCheetah-v5] [--steps 30000] [--seeds 0 1] [--libraries ...]

Everywhere: MLP 256x256, batch 256, Adam 3e-4, gamma 0.99, tau 0.005, learned temperature, one update for each step
after 1000 uniformly random ones, one torch thread. Each number is a seed: the mean return of the final policy's most
likely actions over `--episodes` episodes. Runs go side by side, `--jobs` at a time, so their seconds are no benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

from peers import peer_python

WARM_UP = 1_000
LIBRARIES = ("alfish", "stable-baselines3", "tianshou")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def alfish(options: argparse.Namespace, seed: int) -> tuple[float, float]:
    bindings = [
        f"create_environment.env_name='{options.env_name}'",
        f"TrainerConfig.num_env_steps={options.steps}",
        f"TrainerConfig.initial_collect_steps={WARM_UP}",
        f"TrainerConfig.random_seed={seed}",
        "TrainerConfig.num_threads=1",
        "TrainerConfig.evaluate=False",
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = f"--root_dir={folder}/run"
        began = time.monotonic()
        run(sys.executable, "-m", "alfish.train", "--gin_file=mujoco/sac_halfcheetah.gin", root, *bindings)
        seconds = time.monotonic() - began
        episodes = f"--num_episodes={options.episodes}"
        result = run(sys.executable, "-m", "alfish.evaluate", root, episodes, "--seed=10000", "--json")
        return json.loads(result.splitlines()[-1])["mean_return"], seconds


def peer(options: argparse.Namespace, library: str, seed: int) -> tuple[float, float]:
    arguments = {
        "library": library,
        "env_name": options.env_name,
        "steps": options.steps,
        "warm_up": WARM_UP,
        "seed": seed,
        "episodes": options.episodes,
    }
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    output = run(str(peer_python()), str(Path(__file__).with_name("peer_sac.py")), *flags)
    result = json.loads(output.splitlines()[-1])
    return fmean(result["returns"]), result["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env_name", default="HalfCheetah-v5")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if set(options.libraries) - {"alfish"}:
        peer_python()

    def train(library: str, seed: int) -> tuple[float, float]:
        mean, seconds = alfish(options, seed) if library == "alfish" else peer(options, library, seed)
        print(f"{library:<20} seed {seed}: {mean:9.1f} in {seconds:5.0f} s", flush=True)
        return mean, seconds

    runs = [(library, seed) for seed in options.seeds for library in options.libraries]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(runs, pool.map(lambda each: train(*each), runs), strict=True))
    print(f"\n{options.env_name}, {options.steps:,} environment steps, final policy over {options.episodes} episodes")
    print(f"{'':<20} {'mean':>9}   per seed {' '.join(map(str, options.seeds))}")
    for library in options.libraries:
        means = [results[library, seed][0] for seed in options.seeds]
        print(f"{library:<20} {fmean(means):9.1f}   {'  '.join(f'{mean:9.1f}' for mean in means)}")


if __name__ == "__main__":
    main()

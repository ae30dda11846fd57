"""The peers that alfish is compared with, in virtual environments of their own.

    python tools/peers.py

makes `.peers/` and `.peers-sample-factory/` if they are not there, or adds what is missing. alfish never depends on
them. gin is there so that alfish can be measured with envpool, which `.peers/` has and alfish's own environment need
not have.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TORCH = "torch==2.13.0"
PACKAGES = {
    "peers": [
        "stable-baselines3==2.9.2",
        "tianshou==2.0.1",
        "torchrl==0.14.1",
        "gymnasium[mujoco]==1.4.0",
        "mujoco==4.0.0",
        "ale-py==0.12.1",
        "opencv-python-headless==5.0.0.93",
        "cpprb==11.0.0",
        "envpool==1.2.5",
        "gin-config==0.5.0",
    ],
    # Apart from the others, since it works with no Gymnasium from 1.0 on and no numpy from 2.0 on.
    "peers-sample-factory": ["sample-factory==2.1.1", "gymnasium==0.29.1", "numpy==1.26.4"],
}


def peer_python(name: str = "peers") -> Path:
    """The interpreter that has these peers.

    Raises:
        subprocess.CalledProcessError: they cannot be installed.
    """
    folder, packages = ROOT / f".{name}", PACKAGES[name]
    python = folder / "bin" / "python"
    done, wanted = folder / ".installed", "\n".join([TORCH, *packages])
    if not done.exists() or done.read_text() != wanted:
        print(f"making {folder} with {', '.join(packages)}", file=sys.stderr)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        # Torch first, and pinned: a peer that asks for any torch would bring the newest, with several GB of CUDA.
        for chosen in ([TORCH], [TORCH, *packages]):
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*install, *chosen], check=True)
        done.write_text(wanted)
    return python


if __name__ == "__main__":
    for each in PACKAGES:
        print(peer_python(each))

"""The peers that alfish is compared with, in a virtual environment of their own.

    python tools/peers.py

makes `.peers/` if it is not there, or adds what is missing. alfish never depends on them. gin is there so that alfish
can be measured with envpool, which this environment has and alfish's own need not have.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".peers"
TORCH = "torch==2.13.0"
PACKAGES = [
    "stable-baselines3==2.9.2",
    "tianshou==2.0.1",
    "gymnasium[mujoco]==1.4.0",
    "mujoco==4.0.0",
    "ale-py==0.12.1",
    "opencv-python-headless==5.0.0.93",
    "cpprb==11.0.0",
    "envpool==1.2.5",
    "gin-config==0.5.0",
]


def peer_python() -> Path:
    """The interpreter that has the peers."""
    python = FOLDER / "bin" / "python"
    done, wanted = FOLDER / ".installed", "\n".join([TORCH, *PACKAGES])
    if not done.exists() or done.read_text() != wanted:
        print(f"making {FOLDER} with {', '.join(PACKAGES)}", file=sys.stderr)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        # Torch first, and pinned: a peer that asks for any torch would bring the newest, with several GB of CUDA.
        for packages in ([TORCH], [TORCH, *PACKAGES]):
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*install, *packages], check=True)
        done.write_text(wanted)
    return python


if __name__ == "__main__":
    print(peer_python())

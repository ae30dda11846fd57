"""Packaging: `configs/` at the top level travels in the wheel as `alfish.configs`."""

from pathlib import Path

from setuptools import find_packages, setup

EXTRAS = {
    "atari": ["ale-py>=0.11", "opencv-python-headless>=4.9"],
    "minari": ["minari[hdf5]>=0.5"],
    "mujoco": ["imageio>=2.14", "mujoco>=3.2"],
    "box2d": ["box2d>=2.3.10", "pygame>=2.5"],
    "envpool": ["envpool>=1.2"],
    "video": ["av>=14", "pillow>=10", "pygame>=2.5"],
    "wandb": ["wandb>=0.18"],
    "dev": [
        "av>=14",
        "hypothesis>=6.100",
        "mypy>=1.15",
        "pillow>=10",
        "pygame>=2.5",
        "pytest>=8.3",
        "pytest-xdist>=3.6",
        "ruff>=0.9",
        "setuptools>=77",
        "wheel>=0.45",
    ],
}

config_folders = sorted(
    {"configs", *(str(path.parent) for path in Path("configs").rglob("*.gin"))},
)

setup(
    name="alfish",
    version="0.1.0",
    description="Reinforcement learning in the style of ALF, configured by gin, on PyTorch and Gymnasium.",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    python_requires=">=3.11",
    packages=[
        *find_packages(include=["alfish", "alfish.*"]),
        *(f"alfish.{folder.replace('/', '.')}" for folder in config_folders),
    ],
    package_dir={"alfish": "alfish", "alfish.configs": "configs"},
    package_data={"alfish": ["py.typed"], **{f"alfish.{f.replace('/', '.')}": ["*.gin"] for f in config_folders}},
    install_requires=[
        "absl-py>=2.1",
        "gin-config>=0.5,<0.6",
        "cloudpickle>=3.0",
        "gymnasium>=1.1",
        "numpy>=2.0",
        "tensorboard>=2.18",
        "torch>=2.10",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["alfish=alfish.cli:main"]},
    classifiers=[
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)

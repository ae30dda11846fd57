"""An empty working folder for every test."""

from tests.training.conftest import folder

__all__ = ["folder"]

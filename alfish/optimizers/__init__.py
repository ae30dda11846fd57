"""Optimizers, and the schedulers that move their learning rates and other numbers during a run."""

"""Losses and value targets: pure functions of tensors, time-major."""

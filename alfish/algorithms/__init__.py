"""Algorithms: the contract, the two training loops, one file per algorithm."""

"""Training: the trainer, evaluation, checkpoints and the run folder."""

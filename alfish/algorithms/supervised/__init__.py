"""Learning from examples with known answers: `TrainerConfig.ml_type = 'sl'`."""

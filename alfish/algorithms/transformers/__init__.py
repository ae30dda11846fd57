"""Data transformers: what stands between the environments and the networks, at rollout, in evaluation and at replay."""

from __future__ import annotations

import torch

from alfish.algorithms.transformers.moments import RunningMoments


def test_batches_of_any_size_give_the_moments_of_all_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn((1000, 3), generator=generator) * torch.tensor([1.0, 1e-3, 100.0]) + 1e4
    moments = RunningMoments((3,))
    for batch in samples.split([1, 9, 0, 490, 500]):
        moments.update(batch)
    assert moments.count == 1000
    torch.testing.assert_close(moments.mean, samples.double().mean(0), rtol=1e-12, atol=0)
    torch.testing.assert_close(moments.variance, samples.double().var(0, correction=0), rtol=1e-9, atol=0)
    torch.testing.assert_close(moments.inverse_std, samples.double().std(0, correction=0).reciprocal())


def test_what_never_changed_has_scale_one() -> None:
    moments = RunningMoments((2,))
    assert moments.inverse_std.tolist() == [1.0, 1.0]
    moments.update(torch.tensor([[7.1, 0.0], [7.1, 4.0]]))
    assert moments.inverse_std.tolist() == [1.0, 0.5]


def test_it_is_saved_whole() -> None:
    moments, other = RunningMoments(()), RunningMoments(())
    moments.update(torch.arange(5.0))
    other.load_state_dict(moments.state_dict())
    for each in (moments, other):
        each.update(torch.tensor([10.0, -3.0]))
    assert other.count == 7
    assert torch.equal(other.variance, moments.variance)

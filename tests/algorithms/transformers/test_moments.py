from __future__ import annotations

import torch
from torch import nn

from alfish.algorithms.transformers.moments import RunningMoments, shared_moments
from alfish.collective import Collective
from tests.thread_ranks import on_ranks


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


def test_ranks_share_what_each_of_them_sees() -> None:
    samples = torch.randn((3, 2, 50, 4), generator=torch.Generator().manual_seed(0)) * 10 + 1e3

    def work(ranks: Collective) -> dict[str, torch.Tensor]:
        moments = nn.ModuleList([RunningMoments((4,)), RunningMoments(())])
        for part in samples:
            with shared_moments(moments, ranks):
                own = part[ranks.rank][: 20 + 30 * ranks.rank]  # not equally many
                moments[0].update(own[:5])
                moments[0].update(own[5:])
        return moments.state_dict()

    first, second = on_ranks(2, work)
    seen = torch.cat([part for pair in samples for part in (pair[0][:20], pair[1])]).double()
    assert first["0.count"] == 210
    torch.testing.assert_close(first["0.mean"], seen.mean(0), rtol=1e-12, atol=0)
    torch.testing.assert_close(first["0.deviations"] / 210, seen.var(0, correction=0), rtol=1e-9, atol=0)
    assert first["1.count"] == 0
    assert all(torch.equal(first[name], second[name]) for name in first)

"""One root seed, independent streams."""

from __future__ import annotations

import numpy as np
import torch

from alfish.seeding import Seeds


def test_streams_repeat_for_equal_roots_and_differ_otherwise() -> None:
    assert Seeds(3).integer("env", 1) == Seeds(3).integer("env", 1)
    different = {
        Seeds(3).integer("env", 1),
        Seeds(4).integer("env", 1),
        Seeds(3).integer("env", 2),
        Seeds(3).integer("replay", 1),
        Seeds(3).child("eval").integer("env", 1),
    }
    assert len(different) == 5


def test_the_order_of_asking_does_not_matter() -> None:
    one, other = Seeds(0), Seeds(0)
    first = one.numpy("a").random(3)
    one.numpy("b")
    other.numpy("b")
    assert np.array_equal(other.numpy("a").random(3), first)


def test_streams_are_not_correlated() -> None:
    draws = np.stack([Seeds(1).numpy("env", i).random(2000) for i in range(8)])
    off_diagonal = np.corrcoef(draws)[~np.eye(8, dtype=bool)]
    assert np.abs(off_diagonal).max() < 0.1


def test_torch_streams_repeat() -> None:
    a, b = Seeds(5).torch("action"), Seeds(5).torch("action")
    assert torch.equal(torch.rand(4, generator=a), torch.rand(4, generator=b))


def test_fork_torch_is_reproducible_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with Seeds(1).fork_torch("init"):
        inside = torch.rand(2)
    assert torch.equal(torch.rand(2), expected)
    with Seeds(1).fork_torch("init"):
        assert torch.equal(torch.rand(2), inside)


def test_drawn_seeds_differ_and_repeat_by_their_root() -> None:
    drawn = Seeds.draw()
    assert drawn.root != Seeds.draw().root
    assert Seeds(drawn.root).integer("x") == drawn.integer("x")

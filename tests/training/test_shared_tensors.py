"""Shared tensors are the same in every process."""

from __future__ import annotations

from multiprocessing.connection import Connection

import torch

from alfish.child import Child
from alfish.specs import TensorSpec
from alfish.training.shared_tensors import SharedTensors

SPECS = [TensorSpec((), torch.int64), TensorSpec((3, 2)), TensorSpec((5,), torch.bool), TensorSpec((0,))]


def double(pipe: Connection, shared: SharedTensors) -> None:
    pipe.recv()
    shared.tensors[1].mul_(2)
    pipe.send([tuple(tensor.shape) for tensor in shared.tensors])


def test_they_are_zeros_of_their_shapes_that_do_not_overlap() -> None:
    tensors = SharedTensors(SPECS).tensors
    assert [(tuple(tensor.shape), tensor.dtype) for tensor in tensors] == [(spec.shape, spec.dtype) for spec in SPECS]
    assert not any(tensor.any() for tensor in tensors)
    tensors[1].fill_(-1.0)
    assert tensors[0].item() == 0
    assert not tensors[2].any()
    assert all(tensor.data_ptr() % 64 == tensors[0].data_ptr() % 64 for tensor in tensors[:3])


def test_another_process_sees_and_changes_the_same_memory() -> None:
    shared = SharedTensors(SPECS)
    child = Child("the other", double, (shared,))
    shared.tensors[1].copy_(torch.arange(6.0).reshape(3, 2))
    child.send("go")
    assert child.receive(60) == [spec.shape for spec in SPECS]
    assert shared.tensors[1].flatten().tolist() == [0, 2, 4, 6, 8, 10]
    child.stop()


def test_copies_stay_as_they_were() -> None:
    shared = SharedTensors(SPECS)
    shared.tensors[0].fill_(7)
    copies = shared.copies()
    shared.tensors[0].fill_(8)
    assert copies[0].item() == 7

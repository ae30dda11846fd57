"""A structure survives as plain values."""

from __future__ import annotations

import json

from alfish import nest
from alfish.replay.structure import assembler, describe, lister, rebuild
from alfish.types import AlgStep, record

NEST = AlgStep(output={"a": 1, "b": (2, [3, ()])}, state=(), info=4)


def test_a_nest_comes_back_from_json_with_its_records() -> None:
    rebuilt = rebuild(json.loads(json.dumps(describe(NEST))))
    assert rebuilt == nest.map(lambda _: None, NEST)
    assert isinstance(rebuilt, AlgStep)


def test_a_record_that_is_not_known_becomes_a_dict_with_the_same_paths() -> None:
    @record
    class Local:
        mean: int
        std: int

    rebuilt = rebuild(describe((Local(1, 2), 3)))
    assert rebuilt == ({"mean": None, "std": None}, None)
    assert list(nest.named_leaves(rebuilt)) == list(nest.named_leaves((Local(1, 2), 3)))


def test_nothing_but_records_is_made_from_the_names_in_a_file() -> None:
    assert rebuild(["os:system", {"command": None}]) == {"command": None}
    assert rebuild(["builtins:dict", {"a": None}]) == {"a": None}


def test_an_assembler_packs_leaves_as_unflatten_does() -> None:
    assemble = assembler(AlgStep(output={"a": 0, "b": (1, [2, ()])}, state=(), info=3))
    for leaves in ([1, 2, 3, 4], [[], None, "c", ()]):  # whatever the leaves are
        assert assemble(leaves) == nest.unflatten(NEST, leaves)
    assert isinstance(assemble([1, 2, 3, 4]), AlgStep)
    assert assembler(())([]) == ()
    assert assembler(0)([7]) == 7


def test_an_assembler_may_use_a_leaf_twice_or_not_at_all() -> None:
    assert assembler((1, {"a": 1}))([5, 6, 7]) == (6, {"a": 6})


def test_a_lister_finds_the_leaves_in_their_order_whatever_they_are() -> None:
    listed = lister(NEST)
    for leaves in ([1, 2, 3, 4], [[], None, "c", ()]):
        assert listed(nest.unflatten(NEST, leaves)) == leaves
    assert lister(())(()) == []
    assert lister({'it\'s "so"': 0})({'it\'s "so"': 1}) == [1]

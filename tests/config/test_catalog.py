from __future__ import annotations

from alfish.config.annotation import ANYTHING
from alfish.config.catalog import Catalog, Configurable, Parameter, describe_object
from alfish.config.kinds import Scalar


def _entry(name: str, module: str) -> Configurable:
    return Configurable(name, module, True, (), "", f"{module}.py", 1)


ADAM, THEIR_ADAM, SGD = _entry("Adam", "alfish.optimizers.adam"), _entry("Adam", "theirs.opt"), _entry("SGD", "theirs")


def test_names_match_from_the_end() -> None:
    catalog = Catalog.of([ADAM, SGD])
    assert catalog.get("Adam") is catalog.get("alfish.Adam") is ADAM
    assert catalog.get("optimizers.Adam") is None
    assert catalog.get("dam") is None
    assert catalog.shortest_name(ADAM) == "Adam"


def test_shared_names_need_their_module() -> None:
    catalog = Catalog.of([ADAM]) + [THEIR_ADAM, ADAM]
    assert catalog.matching("Adam") == (ADAM, THEIR_ADAM)
    assert catalog.get("Adam") is None
    assert catalog.get("opt.Adam") is THEIR_ADAM
    assert catalog.shortest_name(THEIR_ADAM) == "theirs.opt.Adam"


def test_parameter_text() -> None:
    assert str(Parameter("n", "Count", Scalar(int), "3")) == "n (int, default 3)"
    assert str(Parameter("n", "Weird[int]", ANYTHING, None)) == "n (Weird[int], no default)"
    assert str(Parameter("n", "", ANYTHING, "3")) == "n (default 3)"


def test_annotations_that_only_type_checkers_know_are_not_checked() -> None:
    def odd(x: NoSuchType = 3) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Odd.

        Args:
            x: something.
        """

    (parameter,) = describe_object(odd, "here.odd").parameters
    assert (parameter.kind, parameter.default, parameter.doc) == (ANYTHING, "3", "something.")

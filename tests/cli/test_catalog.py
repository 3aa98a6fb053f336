"""`feedpipe ops`: every operator and source is in one family, with its line."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from ..support.cli import FAMILIES, CommandError, describe_function, list_functions
from ..support.operators import OperatorMethods

PACKAGE = '''
def scaled(pipe, factor: "float", *, offset: "float" = 0):
    """Multiply each row.

    And add something.
    """

def ones(count):
    """Begin a pipe with ones."""
'''
ENTRY_POINTS = """
[feedpipe.operators]
scaled = scaling:scaled
spoiled = nonesuch:spoiled

[feedpipe.sources]
ones = scaling:ones
"""


def test_every_operator_has_one_family() -> None:
    listed = [name for names in FAMILIES.values() for name in names]
    methods = [name for name, value in vars(OperatorMethods).items() if inspect.isfunction(value)]
    assert sorted(listed) == sorted(methods)


def test_those_of_packages_have_lines_too(install_package: Callable[[str, str, str], None]) -> None:
    install_package("scaling", PACKAGE, ENTRY_POINTS)
    lines = list(list_functions())
    assert lines[lines.index("\nOperators of installed packages, called as `pipe.ext.name(...)`") :] == [
        "\nOperators of installed packages, called as `pipe.ext.name(...)`",
        "  scaled   Multiply each row. [scaling 1.0]",
        "  spoiled  the operator `spoiled` of scaling 1.0 (nonesuch:spoiled) cannot be loaded: ModuleNotFoundError: No "
        "module named 'nonesuch'",
        "\nSources of installed packages, imported from there",
        "  ones  Begin a pipe with ones. [scaling 1.0]",
    ]
    assert list(describe_function("scaled")) == [
        "pipe.ext.scaled(factor: float, *, offset: float = 0)\n    from scaling 1.0\n\nMultiply each row.\n\n"
        "And add something."
    ]
    assert list(describe_function("ones")) == ["scaling.ones(count)\n    from scaling 1.0\n\nBegin a pipe with ones."]
    with pytest.raises(CommandError, match="`spoiled` of scaling 1.0 .* cannot be loaded") as caught:
        list(describe_function("spoiled"))
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", ["batch", "pipe.batch", "pipe.batch()"])
def test_a_name_gives_its_documentation(name: str) -> None:
    (text,) = describe_function(name)
    assert text.startswith("pipe.batch(size: int | Mapping[int, int], *, drop_last: bool = False")
    assert "\n\nGroup `size` rows into one element.\n" in text
    assert "[[0, 1], [2, 3], [4]]" in text


def test_a_name_of_another_library_leads_to_ours() -> None:
    with pytest.raises(CommandError, match="there is no operator or source `fillna`; did you mean `fill_null`?"):
        list(describe_function("fillna"))

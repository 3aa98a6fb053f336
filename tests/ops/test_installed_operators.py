"""`pipe.ext`: operators of installed packages are loaded when asked for; a broken one harms no other."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

import feedpipe as fp

from ..support.core import walk

Install = Callable[[str, str, str], None]

OPERATORS = "[feedpipe.operators]\n"
SCALING = '''
def scaled(pipe, factor, *, offset=0):
    """Multiply each row."""
    return pipe.map(lambda n: factor * n + offset)
'''
PIPE = fp.from_sequence([1, 2, 3])


def test_it_calls_the_function_with_the_pipe(install_package: Install) -> None:
    install_package("scaling", SCALING, f"{OPERATORS}scaled = scaling:scaled")
    assert list(PIPE.ext.scaled(10, offset=1).batch(2)) == [[11, 21], [31]]
    assert PIPE.ext.scaled.__doc__ == "Multiply each row."
    assert dir(PIPE.ext) == ["scaled"]
    assert repr(PIPE.ext) == "<operators of installed packages: scaled>"


@pytest.mark.parametrize("called", ["PIPE.ext.scaled(10)", "PIPE.pipe(scaled, 10)", "scaled(PIPE, 10)"])
def test_its_errors_name_the_line_of_the_user(install_package: Install, called: str) -> None:
    install_package("scaling", SCALING, f"{OPERATORS}scaled = scaling:scaled")
    names = {"__name__": "a_module_of_the_user", "PIPE": fp.from_sequence([1, None])}
    code = f"from scaling import scaled\nscaled_pipe = {called}\nnumbers = scaled_pipe.batch(\n  2)"
    exec(compile(code, "user.py", "exec"), names)
    rows = iter(names["scaled_pipe"])
    assert next(rows) == 10
    with pytest.raises(fp.RowError, match="user.py:2"):
        next(rows)
    assert [node.call_site.line for node in walk(names["numbers"]) if node.inputs] == [2, 3]


def test_a_package_is_imported_when_its_operator_is_asked_for(install_package: Install) -> None:
    install_package("scaling", SCALING, f"{OPERATORS}scaled = scaling:scaled")
    assert "scaled" in dir(PIPE.ext)
    assert "scaling" not in sys.modules
    assert callable(PIPE.ext.scaled)
    assert "scaling" in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scald", r"declares an operator `scald`; did you mean `scaled`\?\n  at .*test_installed_operators.py:"),
        ("batch", r"declares an operator `batch`; it is an operator of feedpipe: `pipe.batch\(...\)`"),
        ("xyz", r"declares an operator `xyz`; there are `scaled`"),
    ],
)
def test_an_unknown_name_is_an_error_with_a_repair(install_package: Install, name: str, message: str) -> None:
    install_package("scaling", SCALING, f"{OPERATORS}scaled = scaling:scaled")
    assert not hasattr(PIPE.ext, name)
    with pytest.raises(AttributeError, match=message):
        getattr(PIPE.ext, name)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nonesuch", "ModuleNotFoundError: No module named 'nonesuch'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("", "AttributeError: module 'broken' has no attribute 'spoiled'"),
        ("spoiled = 3", "it must be a function but is: 3"),
        ("class spoiled: pass", "it must be a function but is: <class 'broken.spoiled'>"),
    ],
)
def test_a_broken_package_is_named_and_harms_no_other(install_package: Install, code: str, reason: str) -> None:
    install_package("broken", code, f"{OPERATORS}spoiled = broken:spoiled")
    install_package("scaling", SCALING, f"{OPERATORS}scaled = scaling:scaled")
    with pytest.raises(ImportError) as caught:
        _ = PIPE.ext.spoiled
    message = f"the operator `spoiled` of broken 1.0 (broken:spoiled) cannot be loaded: {reason}\n  at {__file__}:"
    assert str(caught.value).startswith(message)
    assert list(PIPE.ext.scaled(2)) == [2, 4, 6]


def test_a_name_that_two_packages_declare_is_refused(install_package: Install) -> None:
    install_package("scaling", SCALING, f"{OPERATORS}scaled = scaling:scaled")
    install_package("rescaling", SCALING, f"{OPERATORS}scaled = rescaling:scaled")
    with pytest.raises(AttributeError, match="rescaling 1.0 and scaling 1.0 declare an operator `scaled`; import"):
        _ = PIPE.ext.scaled

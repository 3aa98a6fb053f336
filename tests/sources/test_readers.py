"""The readers of files have the options of what they call: for types, at run time, in `help`."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError

from ..support.sources import read_files

READERS = sorted(name for name in vars(read_files) if name.startswith("read_"))


@pytest.mark.parametrize("name", READERS)
def test_types_and_signature_have_the_same_options(name: str) -> None:
    reader = getattr(fp, name)
    options = [*inspect.signature(reader).parameters][1:]
    declared = get_type_hints(reader, vars(read_files))["options"].__args__[0]
    assert sorted(options) == sorted(declared.__annotations__)
    assert all(f"{option}" in (reader.__doc__ or "") for option in options)


@pytest.mark.parametrize("name", READERS)
def test_an_unknown_option_is_refused(name: str) -> None:
    for option in ("fixed_schema", "nonsense"):
        with pytest.raises(ArgumentTypeError, match=f"`{name}` has no argument `{option}`"):
            getattr(fp, name)("a", **{option: None})
        with pytest.raises(ArgumentTypeError, match=f"`{name.replace('read', 'parse')}` has no argument `{option}`"):
            getattr(fp.list_files("a").open_files(), name.replace("read", "parse"))(**{option: None})


def test_the_words_of_other_libraries_are_known() -> None:
    with pytest.raises(ArgumentTypeError, match="`read_csv` has no argument `sep`; did you mean `delimiter`"):
        fp.read_csv("a", sep=";")  # type: ignore[call-arg]
    with pytest.raises(ArgumentTypeError, match="`read_parquet` has no argument `compression`"):
        fp.read_parquet("a", compression="gzip")  # type: ignore[call-arg]

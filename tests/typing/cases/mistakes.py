"""Mistakes that both checkers must report on their lines. Checked, never run: see test_types.py."""

from typing import Any

import numpy as np

import feedpipe as fp
from feedpipe import Pipe

numbers = fp.from_sequence(range(10))
words = fp.from_sequence(["a", "b"])


def with_generator(x: int, rng: np.random.Generator) -> float:
    return x + rng.random()


def tokens(pipe: Pipe[str], *, lower: bool) -> Pipe[list[str]]:
    return pipe.map(str.lower if lower else str).map(str.split)


# Names and arguments
numbers.bacth(4)  # expect-error
numbers.batch("4")  # expect-error
numbers.batch()  # expect-error
numbers.batch(4, True)  # expect-error
numbers.batch(size=4, drop_lst=True)  # expect-error
numbers.map(len, rng="local")  # expect-error
numbers.load(limit=[])  # expect-error
numbers.batch(4).collate(nulls="zero")  # expect-error
numbers.batch(4).collate(fn=len)  # expect-error
numbers.filter(function=bool)  # expect-error

# An operator on the wrong elements
words.map(abs)  # expect-error
numbers.unbatch()  # expect-error
numbers.map(str).map(lambda s: s + 1)  # expect-error
numbers.batch(4).map(lambda rows: rows.items())  # expect-error
numbers.flat_map(lambda x: x)  # expect-error
numbers.batch(4).to_arrow()  # expect-error
fp.read_arrow("a.arrow").map_columns(dict)  # expect-error
numbers.map(with_generator)  # expect-error
words.map(with_generator, rng=True)  # expect-error

# Several pipes
numbers.zip([1, 2])  # expect-error
numbers.concat([1, 2])  # expect-error

# A function of the user in the chain
numbers.pipe(tokens, lower=True)  # expect-error
words.pipe(tokens)  # expect-error
words.pipe(tokens, upper=True)  # expect-error

# Where a pipe or a source is used
taken: Pipe[str] = numbers  # expect-error
fp.from_sequence(iter([1]))  # expect-error
fp.from_sequence(3)  # expect-error


def of_any(pipe: Pipe[Any]) -> Pipe[int]:
    """A pipe of `Any` can be used: no error here."""
    return pipe.filter(bool)


# Files before they are opened
paths = fp.list_files("data/*.csv")
paths.parse_csv()  # expect-error
paths.parse_parquet()  # expect-error
numbers.open_files()  # expect-error
paths.open_files().open_files()  # expect-error
numbers.parse_lines()  # expect-error
paths.open_files().parse_csv(delimeter=";")  # expect-error
paths.open_files().parse_csv(columns=3)  # expect-error
fp.read_csv("a.csv", delimeter=";", cache=None)  # expect-error
fp.read_csv("a.csv", newlines_in_values="no")  # expect-error
fp.read_csv("a.csv", recursive="no")  # expect-error
fp.read_csv("a.csv", None)  # expect-error
fp.read_parquet("a.parquet", compression="gzip")  # expect-error
fp.read_arrow("a.arrow", indexed=True)  # expect-error
fp.read_arrow("a.arrow", on_error="skip")  # expect-error
fp.Loader(numbers, even="maybe")  # expect-error
fp.Loader([1, 2])  # expect-error

"""Mix two corpora 70 to 30, pack their documents into sequences, stop in the middle of an epoch, and go on.

    python examples/language_mixture.py

The corpora are made up: documents of random tokens, those of the second corpus above `SECOND`. Each sequence tells what
is in it, so the program checks the proportion of the documents, and that a resumed loader goes on with the very tokens
that the stopped one would have given next.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from typing import Any

import numpy as np

import feedpipe as fp

SECOND = 50_000  # the tokens of the second corpus
Batch = dict[str, Any]


def corpus(first_token: int, documents: int) -> fp.Pipe[dict[str, object]]:
    """Return documents of 10 to 200 tokens, in a new order in each round."""

    def tokens(number: int) -> dict[str, object]:
        random = np.random.default_rng((first_token, number))
        return {"tokens": random.integers(first_token, first_token + 1000, size=random.integers(10, 201))}

    return fp.from_sequence(range(documents)).shuffle().map(tokens).repeat()


def sequences(length: int, documents: int = 2000) -> fp.Pipe[Batch]:
    """Return batches of four packed sequences of a mixture."""
    mixed = corpus(0, documents).mix(corpus(SECOND, documents), weights=[0.7, 0.3])
    return mixed.pack(length, column="tokens").batch(4).collate()


def documents_of(batches: list[Batch]) -> tuple[int, int]:
    """Return how many documents of each corpus begin in the batches."""
    first = second = 0
    for batch in batches:
        begins = np.asarray(batch["position_ids"]) == 0
        begins &= np.asarray(batch["segment_ids"]) > 0
        is_second = np.asarray(batch["tokens"]) >= SECOND
        first += int((begins & ~is_second).sum())
        second += int((begins & is_second).sum())
    return first, second


def same(batches: list[Batch], others: list[Batch]) -> bool:
    """Return whether two runs gave the same batches."""
    pairs = zip(batches, others, strict=True)
    return all(np.array_equal(np.asarray(a[name]), np.asarray(b[name])) for a, b in pairs for name in a)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--stop-at", type=int, default=73)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    def loader() -> fp.Loader[Batch]:
        return fp.Loader(sequences(options.length), workers=options.workers, seed=1, steps=options.steps)

    with loader() as whole:
        expected = list(whole)
    with loader() as stopped:
        before = list(islice(stopped, options.stop_at))
        state = json.dumps(stopped.state_dict())
    with loader() as resumed:
        resumed.load_state_dict(json.loads(state))
        after = list(resumed)

    first, second = documents_of(expected)
    is_same = same([*before, *after], expected)
    sys.stdout.write(f"documents    {first} and {second}, {first / (first + second):.1%} of the first corpus\n")
    sys.stdout.write(f"state        {len(state)} bytes\n")
    sys.stdout.write(f"same tokens  {'yes' if is_same else 'no'}\n")
    return 0 if is_same else 1


if __name__ == "__main__":
    raise SystemExit(main())

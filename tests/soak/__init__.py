"""`make soak`: the random tests, many times longer than in a run of all tests."""

import os

#: How many times as many examples as usual the random tests take.
SOAK = int(os.environ.get("SOAK", "1"))

"""Operators that choose rows, or their order: slices, samples, shuffles, repetition."""

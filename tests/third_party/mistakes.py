"""Mistakes in the use of the package that type checkers find. Checked, never run."""

from feedpipe_example import Background, Differences, differences, noise

import feedpipe as fp
from feedpipe.extensions import Order

noise("many")  # expect-error
noise(3).pipe(differences, "two")  # expect-error
fp.from_sequence(["a"]).pipe(differences)  # expect-error
fp.Loader(noise(3), Background)  # expect-error
Differences(lag="two")  # expect-error
Differences.order = Order.ROWWISE  # expect-error

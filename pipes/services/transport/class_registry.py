"""Numbers for classes that travel by value, so that elements come back as instances of the very same class.

A class of the user's `__main__`, or one that was made inside a function, reaches a worker as a copy. A number travels
with the copy. An element names its class by that number, and the consumer finds its own class by it.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from threading import Lock
from weakref import WeakKeyDictionary, WeakValueDictionary

from ...errors import LoaderError

_lock = Lock()
_count = itertools.count(secrets.randbits(48))  # unlike the numbers of other processes, which this one may adopt
_classes: WeakValueDictionary[int, type] = WeakValueDictionary()
_numbers: WeakKeyDictionary[type, int] = WeakKeyDictionary()


def number_of(cls: type) -> int:
    """The number of `cls`, the same for as long as this process has the class."""
    with _lock:
        number = _numbers.get(cls)
        if number is None:
            number = _numbers[cls] = next(_count)
            _classes[number] = cls
        return number


def class_of(number: int) -> type:
    """The class with that number.

    Raises:
        LoaderError: this process has given out no such number, or has dropped the class since.
    """
    cls = _classes.get(number)
    if cls is None:
        raise LoaderError(f"an element is of class number {number}, which this process does not hold any more")
    return cls


def adopt(classes: Mapping[type, int]) -> None:
    """Registers classes that another process has sent, under the numbers of that process."""
    with _lock:
        _numbers.update(classes)
        _classes.update({number: cls for cls, number in classes.items()})

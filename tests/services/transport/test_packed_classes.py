"""Classes that a worker cannot import travel by value, or by a number."""

from __future__ import annotations

import textwrap

import pytest

from .round_trip import python

WORKER = """
    import pickle, sys
    import cloudpickle
    from cloudpickle import cloudpickle as inner
    from feedpipe.services.transport.packing import Packer

    sent, numbers = cloudpickle.loads(sys.stdin.buffer.read())
    # Without this, cloudpickle itself would find some of the classes.
    inner._DYNAMIC_CLASS_TRACKER_BY_CLASS.clear()
    packer = Packer({cls: numbers[name] for name, cls in sent.items()})
    make = sent["make"]
    answers = []
    for _ in range(2):
        packed = packer.pack(make(sent))
        answers.append((b"".join(packed.body()), packed.sizes))
    assert packer._by_value
    sys.stdout.buffer.write(pickle.dumps(answers))
"""
MAIN = """
    import dataclasses, enum, pickle, subprocess, sys, textwrap
    from typing import NamedTuple
    import cloudpickle
    import numpy as np
    import torch
    from feedpipe.services.transport.packing import class_of, number_of
    from feedpipe.services.transport.packing import unpack_body

    @dataclasses.dataclass
    class Sample:
        x: object
        more: object = None

    @dataclasses.dataclass(slots=True)
    class Slotted:
        x: object
        more: object = None

    @dataclasses.dataclass(slots=True, frozen=True)
    class Frozen:
        x: object

    class Pair(NamedTuple):
        a: object
        b: object

    class Color(enum.Enum):
        RED = 1

    class Problem(Exception):
        pass

    class Meta(type):
        pass

    def local():
        class Inside(metaclass=Meta):
            __slots__ = ("x",)
            class Deeper:
                x = 0
        return Inside

    Inside = local()

    def make(sent):
        inside = sent["Inside"]()
        inside.x = [sent["Deeper"]()]
        import numpy as np, torch
        x = np.arange(3)
        new = type("New", (sent["Sample"],), {"__module__": "__main__"})
        return [
            sent["Sample"](x, sent["Pair"](torch.ones(2), x)), sent["Color"].RED, sent["Problem"]("no"), inside,
            sent["Inside"], new(1), lambda y: y + 1, x, sent["Slotted"](sent["Frozen"](x)),
        ]

    classes = [Sample, Pair, Color, Problem, Inside, Slotted, Frozen]
    sent = {cls.__name__: cls for cls in classes} | {"Deeper": Inside.Deeper}
    numbers = {name: number_of(cls) for name, cls in sent.items()}
    assert all(class_of(number) is sent[name] for name, number in numbers.items())
    given = cloudpickle.dumps((sent | {"make": make}, numbers | {"make": -1}))
    worker = subprocess.run([sys.executable, "-c", textwrap.dedent(WORKER)], input=given, stdout=subprocess.PIPE)
    assert worker.returncode == 0
    for body, sizes in pickle.loads(worker.stdout):
        sample, red, problem, inside, cls, new, function, x, slotted = unpack_body(body, sizes)
        assert type(sample) is Sample and type(sample.more) is Pair and sample.more.a.tolist() == [1, 1]
        assert sample.x is x is sample.more.b and x.tolist() == [0, 1, 2] and x.flags.writeable
        assert red is Color.RED and type(problem) is Problem and problem.args == ("no",)
        assert type(inside) is Inside and type(inside.x[0]) is Inside.Deeper and cls is Inside
        assert type(slotted) is Slotted and type(slotted.x) is Frozen and slotted.x.x is x and slotted.more is None
        assert isinstance(new, Sample) and new.x == 1 and type(new).__name__ == "New" and function(1) == 2
"""


@pytest.mark.slow
def test_classes_that_cannot_be_imported() -> None:
    """The classes of the consumer are in `__main__` or in functions, and the worker has copies of them."""
    python(f"WORKER = {WORKER!r}\n" + textwrap.dedent(MAIN))

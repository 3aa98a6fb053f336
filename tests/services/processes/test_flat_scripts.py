"""A script needs no `if __name__ == "__main__"`: no worker runs it again, and its definitions work in workers."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

FLAT = """
import dataclasses, enum, functools
from typing import NamedTuple
import feedpipe as fp

print("body")

class Color(enum.Enum):
    RED = 1

@dataclasses.dataclass
class Point:
    x: int
    color: Color

class Pair(NamedTuple):
    a: int
    b: Point

class Odd(Exception):
    pass

offset = 100

@functools.lru_cache(maxsize=None)
def triangular(n):
    return n and n + triangular(n - 1)

def point(row):
    class Local(Point):
        pass
    point = Local(row + offset, Color.RED)
    assert triangular(row) == row * (row + 1) // 2
    return Point(point.x, point.color)

def scaled(factor):
    return lambda pair: pair._replace(a=pair.a * factor)

class Adder:
    def __init__(self, n):
        self.n = n
    def __call__(self, pair):
        assert isinstance(pair, Pair) and type(pair.b) is Point
        return pair._replace(a=pair.a + self.n)

pipe = (
    fp.from_sequence(range(9)).map(point).map(lambda p: Pair(p.x, p)).map(scaled(2)).map(Adder(1))
    .map(functools.partial(lambda n, pair: pair, 5))
)

def fail(row):
    raise Odd("odd", row)

with fp.Loader(pipe, workers=2) as loader:
    got = list(loader)
    assert [pair.a for pair in got] == [2 * (row + 100) + 1 for row in range(9)]
    for pair in got + list(loader):
        assert isinstance(pair, Pair) and isinstance(pair.b, Point) and pair.b.color is Color.RED
    assert got[3].b == Point(103, Color.RED)
with fp.Loader(fp.from_sequence([1]).map(fail), workers=1) as loader:
    try:
        list(loader)
    except fp.RowError as error:
        assert type(error.__cause__) is Odd and error.__cause__.args == ("odd", 1)
    else:
        assert False
print("end")
"""


@pytest.mark.slow
def test_a_file(script):
    assert script.run(FLAT) == "body\nend\n"


@pytest.mark.slow
def test_standard_input(script):
    process = script.command("-", stdin=subprocess.PIPE)
    assert script.said(process, FLAT) == "body\nend\n"


@pytest.mark.slow
def test_a_module_of_a_package(script):
    package = script.folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("print('package')")
    (package / "other.py").write_text("offset = 100")
    (package / "module.py").write_text(FLAT.replace("offset = 100", "from .other import offset"))
    said = script.said(script.command("-m", "package.module"))
    # A worker may import the package, as any module that can be imported, but never the module itself.
    assert said.replace("package\n", "") == "body\nend\n"


NOTEBOOK = """
import __main__
assert not hasattr(__main__, "__file__")

for number, cell in enumerate({cells!r}):
    compiled = compile(cell, f"<ipython-input-{{number}}>", "exec")
    exec(compiled, vars(__main__))
"""


@pytest.mark.slow
def test_the_cells_of_a_notebook(script):
    cells = FLAT.split("\n\n")
    assert script.said(script.command("-c", NOTEBOOK.format(cells=cells))) == "body\nend\n"


@pytest.mark.slow
def test_a_cell_that_is_run_again_after_a_change(script):
    cells = [
        "import feedpipe as fp",
        "def f(row): return row + 1",
        "with fp.Loader(fp.from_sequence(range(3)).map(f), workers=2) as loader: print(list(loader))",
        "def f(row): return row + 2",
        "with fp.Loader(fp.from_sequence(range(3)).map(f), workers=2) as loader: print(list(loader))",
    ]
    assert script.said(script.command("-c", NOTEBOOK.format(cells=cells))) == "[1, 2, 3]\n[2, 3, 4]\n"


@pytest.mark.slow
def test_a_module_beside_the_script(script):
    (script.folder / "beside.py").write_text("def double(row): return row * 2\nclass Box:\n    pass\n")
    source = """
import feedpipe as fp, beside
with fp.Loader(fp.from_sequence([1, 2]).map(beside.double).map(lambda row: (row, beside.Box())), workers=1) as loader:
    for row, box in loader:
        print(row, type(box) is beside.Box)
"""
    assert script.run(source) == "2 True\n4 True\n"


@pytest.mark.slow
def test_the_example_of_the_readme(script):
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0]
    assert "fp.Loader(pipe, " in example
    if "workers=" not in example:
        example = example.replace("fp.Loader(pipe, ", "fp.Loader(pipe, workers=2, ")
    example = textwrap.dedent(example) + "\nprint(batch['x'].shape, batch['x'].dtype)\n"
    assert script.run(example) == "torch.Size([32, 8]) torch.float32\n"

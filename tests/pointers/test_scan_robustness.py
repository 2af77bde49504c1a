"""The scanner never raises, whatever it is given to read."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecbench.pointers.scanner.sources import SourceFile, scan_content
from ecbench.pointers.scanner.values import MAX_NESTING, NOTHING, Kind, Value, join, nesting, sequence

FILE = SourceFile(Path("module.py"), "module.py", "module.py")
SAMPLES = [path.read_text() for path in sorted((Path(__file__).parent / "scan_samples").rglob("*.py"))]
NAMES = ("x", "y", "table", "self", "cpu_buffer")
EXPRESSIONS = (
    *NAMES,
    *("0", "(1 << 63)", "2**64", "-1"),
    *("{}.data_ptr()", "[{}]", "({},)", "(*[{}], 1)", "{}[0]", "{}[1:]", "f({})", "C({}).held", "float({})", "int({})"),
    *("torch.tensor({}, dtype=torch.int64)", "torch.empty({}, dtype=torch.uint64)", "np.asarray({})"),
    *(
        "np.arange({}, dtype=np.int64)",
        "struct.pack('q', {})",
        "[v for v in {}]",
        "{{k: k for k in {}}}",
        "(lambda q: {})",
    ),
    *("({} + {})", "({} - {})", "({} if {} else 0)", "torch.ops.ns.op({}, k={})", "({} << {})", "{{'a': {}, 'b': {}}}"),
)
STATEMENTS = (
    *(
        "{name} = {}",
        "{name} += {}",
        "{name}[{}] = {}",
        "{name}.append({})",
        "self.{name} = {}",
        "return {}",
        "yield {}",
    ),
    *("for {name}, *y in {}: x = {name}", "while {}: {name} = [{name}]", "if {}: x = y", "a, {name} = {}"),
)
MAX_DEPTH = 5
HEAD = "import torch, struct\nimport numpy as np\nclass C:\n  def __init__(self, held): self.held = held\n"


def expression(random, depth=0):
    if depth == MAX_DEPTH:
        return random.choice(NAMES)
    form = random.choice(EXPRESSIONS)
    return form.format(*(expression(random, depth + 1) for _ in range(2)))


def statement(random):
    return random.choice(STATEMENTS).format(expression(random), expression(random), name=random.choice(NAMES))


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_generated_programs_never_raise_and_scan_the_same_twice(seed, length):
    random = Random(seed)
    body = "\n".join(f"    {statement(random)}" for _ in range(length))
    content = f"{HEAD}def f(self, x, y=None, *table, **cpu_buffer):\n{body}\n".encode()
    scanned = scan_content(content, FILE)
    if scanned.unparsable is not None:
        with pytest.raises(SyntaxError):
            ast.parse(content)
    assert scanned == scan_content(content, FILE)


@settings(max_examples=150)
@given(st.data())
def test_damaged_sources_never_raise(data):
    text = data.draw(st.sampled_from(SAMPLES))
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 40))
    inserted = data.draw(st.text(max_size=10))
    scan_content((text[:start] + inserted + text[start + length :]).encode("utf-8", "surrogatepass"), FILE)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_arbitrary_bytes_never_raise(content):
    scan_content(content + b"\n# data_ptr\n", FILE)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return f(f(x.data_ptr()))\n",
        "def f(x):\n    return g([x.data_ptr()])\ndef g(x):\n    return f(x)\n",
        "class A(B): pass\nclass B(A):\n    def m(self):\n        self.x = [self.x, self.m().data_ptr()]\n",
        "class A:\n    def __init__(self): self.a = A(self.a)\ndata_ptr = A\n",
        "x = lambda: x.data_ptr()\nx()()\n",
        "def f(*, ptr: int, **k): return {**k, 'a': ptr}\nf(**{'ptr': f.data_ptr()}, **f)\n",
        "match x.data_ptr():\n    case [a, *b]: y = a\n    case {'k': v, **r}: y = v\n    case _: pass\n",
        "try:\n    x = y.data_ptr()\nexcept* OSError as e:\n    raise\n",
        "async def f(x):\n    async with x as y, y:\n        async for z in await y: z.data_ptr()\n",
        "import a.b as torch, numpy\nfrom . import x\nfrom .. import *\nx.data_ptr()\n",
        "data_ptr().data_ptr(*a, **b).data_ptr\n",
        "global x\ndel x.data_ptr\n",
        "def f(x):\n    nonlocal_ = x.data_ptr()\n    def f(x): return f(nonlocal_)\n    return f\n",
        "a[b.data_ptr()][c.data_ptr()] = d.data_ptr()\n(a.b).c[0] = [*a, b.data_ptr()] = x.data_ptr()\n",
        "struct.pack('99999999999999q', x.data_ptr())\nstruct.pack(f'{n}q', x.data_ptr())\nstruct.pack()\n",
        "torch.tensor()\ntorch.full(x.data_ptr())\nnp.array()\nnp.where(x.data_ptr())\nfloat()\nint()\nzip()\nmap()\n",
    ],
)
def test_odd_programs_do_not_raise(text):
    assert scan_content(text.encode(), FILE).findings is not None


VALUES = st.recursive(
    st.builds(
        Value,
        kind=st.sampled_from(Kind),
        address=st.booleans(),
        host=st.booleans(),
        twos=st.booleans(),
        dtype=st.sampled_from([None, "int64", "uint64"]),
    ),
    lambda inner: st.lists(inner, max_size=3).map(sequence),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_an_address_on_one_path_is_an_address_after_the_paths_meet(left, right):
    joined = join(left, right)
    assert joined.address == (left.address or right.address)
    assert join(left, left) == left
    assert join(left, NOTHING) == left == join(NOTHING, left)


@given(VALUES)
def test_nested_sequences_stay_finite(value):
    for _ in range(2 * MAX_NESTING):
        value = sequence([value, value])
    assert nesting(value) <= MAX_NESTING + 1

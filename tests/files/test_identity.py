"""Functions and values are known by everything that can be seen of them; what cannot be seen is refused."""

import collections
import dataclasses
import enum
import functools
import importlib
import subprocess
import sys
import textwrap
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equilibria as eq
from equilibria.files.identity import Unseen, fingerprint, seen


def cell(source):
    """The function `cell` of a program without a file, as `python -c` and notebooks make them."""
    namespace = {"__name__": "a_study"}
    exec(textwrap.dedent(source), namespace)
    return namespace["cell"]


CHANGES = {
    "a constant": ("cell = lambda x: 2 * x", "cell = lambda x: 3 * x"),
    "the type of a constant": ("cell = lambda x: 2 * x", "cell = lambda x: 2.0 * x"),
    "the sign of zero": ("cell = lambda x: x / 0.0", "cell = lambda x: x / -0.0"),
    "an operation": ("cell = lambda x: 2 * x", "cell = lambda x: 2 + x"),
    "which of two lambdas on a line": (
        "cell, other = lambda x: x + 1, lambda x: x + 2",
        "other, cell = lambda x: x + 1, lambda x: x + 2",
    ),
    "a default": ("def cell(x, n=1): return n * x", "def cell(x, n=2): return n * x"),
    "a default by keyword": ("def cell(x, *, n=1): return n * x", "def cell(x, *, n=2): return n * x"),
    "a module constant": ("N = 1\ndef cell(x): return N * x", "N = 2\ndef cell(x): return N * x"),
    "a constant that an inner function reads": (
        "N = 1\ndef cell(x): return [N * y for y in x]",
        "N = 2\ndef cell(x): return [N * y for y in x]",
    ),
    "whether a name is bound": ("def cell(x): return N * x", "N = None\ndef cell(x): return N * x"),
    "a closure": (
        "def make(n):\n    return lambda x: n * x\ncell = make(1)",
        "def make(n):\n    return lambda x: n * x\ncell = make(2)",
    ),
    "a function that is called": (
        "def f(x): return 2 * x\ndef cell(x): return f(x)",
        "def f(x): return 3 * x\ndef cell(x): return f(x)",
    ),
    "a function that a called one calls": (
        "def g(x): return 2 * x\ndef f(x): return g(x)\ndef cell(x): return f(x)",
        "def g(x): return 3 * x\ndef f(x): return g(x)\ndef cell(x): return f(x)",
    ),
    "one of two that call each other": (
        "def g(x): return f(x) - 1\ndef f(x): return g(x) if x else 0\ncell = f",
        "def g(x): return f(x) - 2\ndef f(x): return g(x) if x else 0\ncell = f",
    ),
    "a function in a table": (
        "T = {'a': lambda x: x + 1}\ndef cell(x): return T['a'](x)",
        "T = {'a': lambda x: x + 2}\ndef cell(x): return T['a'](x)",
    ),
    "what is compiled": (
        "import jax\n@jax.jit\ndef f(x): return 2 * x\ndef cell(x): return f(x)",
        "import jax\n@jax.jit\ndef f(x): return 3 * x\ndef cell(x): return f(x)",
    ),
    "a derivative of one's own": (
        "import jax\nf = jax.custom_jvp(lambda x: x)\nf.defjvp(lambda p, t: (p[0], t[0]))\ndef cell(x): return f(x)",
        "import jax\nf = jax.custom_jvp(lambda x: x)\nf.defjvp(lambda p, t: (p[0], 2 * t[0]))\ndef cell(x): return f(x)",
    ),
    "a method": (
        "class A:\n    def f(self, x): return 2 * x\ndef cell(x): return A().f(x)",
        "class A:\n    def f(self, x): return 3 * x\ndef cell(x): return A().f(x)",
    ),
    "a method of a base class": (
        "class A:\n    def f(self, x): return 2 * x\nclass B(A): pass\ndef cell(x): return B().f(x)",
        "class A:\n    def f(self, x): return 3 * x\nclass B(A): pass\ndef cell(x): return B().f(x)",
    ),
    "a constant of a class": (
        "class A:\n    n = 2\ndef cell(x): return A.n * x",
        "class A:\n    n = 3\ndef cell(x): return A.n * x",
    ),
    "a property": (
        "class A:\n    @property\n    def n(self): return 2\ndef cell(x): return A().n * x",
        "class A:\n    @property\n    def n(self): return 3\ndef cell(x): return A().n * x",
    ),
    "a static method": (
        "class A:\n    @staticmethod\n    def n(): return 2\ndef cell(x): return A.n() * x",
        "class A:\n    @staticmethod\n    def n(): return 3\ndef cell(x): return A.n() * x",
    ),
    "who a method belongs to": (
        "class A:\n    def __init__(self, n): self.n = n\n    def f(self, x): return self.n * x\ncell = A(2).f",
        "class A:\n    def __init__(self, n): self.n = n\n    def f(self, x): return self.n * x\ncell = A(3).f",
    ),
    "a callable object": (
        "class A:\n    def __init__(self, n): self.n = n\n    def __call__(self, x): return self.n * x\ncell = A(2)",
        "class A:\n    def __init__(self, n): self.n = n\n    def __call__(self, x): return self.n * x\ncell = A(3)",
    ),
    "an object with slots": (
        "class A:\n    __slots__ = ('n',)\na = A()\na.n = 2\ndef cell(x): return a.n * x",
        "class A:\n    __slots__ = ('n',)\na = A()\na.n = 3\ndef cell(x): return a.n * x",
    ),
    "an attribute of the function": (
        "def cell(x): return cell.n * x\ncell.n = 2",
        "def cell(x): return cell.n * x\ncell.n = 3",
    ),
    "a wrapper": (
        "from functools import wraps\ndef by(n):\n    def made(f):\n        @wraps(f)\n        def g(x): return n * f(x)\n"
        "        return g\n    return made\n@by(2)\ndef cell(x): return x",
        "from functools import wraps\ndef by(n):\n    def made(f):\n        @wraps(f)\n        def g(x): return n * f(x)\n"
        "        return g\n    return made\n@by(3)\ndef cell(x): return x",
    ),
    "what an error leads to": (
        "def cell(x):\n    try: return f(x)\n    except ValueError: return 0",
        "def cell(x):\n    try: return f(x)\n    except TypeError: return 0",
    ),
    "an argument bound by partial": (
        "from functools import partial\ncell = partial(pow, 2)",
        "from functools import partial\ncell = partial(pow, 3)",
    ),
    "what a built-in method belongs to": ("cell = {'a': 1}.get", "cell = {'a': 2}.get"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_function_has_another_fingerprint(change):
    before, after = CHANGES[change]
    assert fingerprint(cell(before)) == fingerprint(cell(before))
    assert fingerprint(cell(before)) != fingerprint(cell(after))
    assert seen(cell(before)) == seen(cell(before))
    assert seen(cell(before)) != seen(cell(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def cell(x): return 2 * x", "# a comment\n\ndef cell(x):\n    return (2 *\n        x)  # and spacing"),
        ("N = 1\ndef cell(x): return N * x", "M = 5\nN = 1\ndef cell(x): return N * x"),
        (
            "mean = 1\ndef cell(x): return x.mean()",
            "mean = 2\ndef cell(x): return x.mean()",
        ),  # an attribute, not the global
        ("T = {'a': 1, 'b': 2}\ndef cell(x): return T", "T = {'b': 2, 'a': 1}\ndef cell(x): return T"),
        ("A = [1]\nT = (A, A)\ndef cell(x): return T", "T = ([1], [1])\ndef cell(x): return T"),
        ("def cell(x: int) -> int: return x", "def cell(x: float): return x"),
    ],
)
def test_what_does_not_matter_does_not_count(before, after):
    assert fingerprint(cell(before)) == fingerprint(cell(after))
    assert seen(cell(before)) == seen(cell(after))


def test_the_part_that_changed_is_named():
    before = seen(cell("N = 1\ndef cell(x, y=1): return N * x"))
    assert set(before) == {"code", "default arguments", "N"}
    after = seen(cell("N = 2\ndef cell(x, y=1): return N * x"))
    assert [name for name in before if before[name] != after[name]] == ["N"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a module of one's own, and import it anew."""
    monkeypatch.syspath_prepend(tmp_path)

    def written(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            return [importlib.import_module(name) for name in sources]
        finally:
            sys.dont_write_bytecode = before

    yield written
    for name in ("study_helpers", "study_lower"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "source",
    [
        "import study_helpers\ndef cell(x): return study_helpers.f(x)",
        "from study_helpers import f\ndef cell(x): return f(x)",
        "def cell(x):\n    import study_helpers\n    return study_helpers.f(x)",
        "def cell(x):\n    from study_helpers import f\n    return f(x)",
        "import study_helpers\ndef cell(x): return vars(study_helpers)['f'](x)",
        "import study_helpers\ndef cell(x): return [study_helpers][0].f(x)",
    ],
)
def test_ones_own_modules_are_looked_into(package, source):
    lower = "def g(x): return 2 * x"
    helpers = "import study_lower\ndef f(x): return study_lower.g(x)\nother = 1"
    package(study_lower=lower, study_helpers=helpers)
    first = fingerprint(cell(source))
    package(study_lower=lower, study_helpers=helpers)
    assert fingerprint(cell(source)) == first
    package(study_lower="def g(x): return 3 * x", study_helpers=helpers)
    assert fingerprint(cell(source)) != first


def test_of_ones_own_modules_only_what_is_read_counts(package):
    source = "import study_helpers\ndef cell(x): return study_helpers.f(x)"
    package(study_helpers="def f(x): return x\nother = 1")
    first = fingerprint(cell(source))
    package(study_helpers="def f(x): return x\nother = 2")
    assert fingerprint(cell(source)) == first


def test_installed_packages_are_known_by_name_and_version(monkeypatch):
    source = "import numpy as np\ndef cell(x): return np.linalg.norm(x)"
    first = fingerprint(cell(source))
    monkeypatch.setattr("equilibria.files.names._version", lambda package: "0.0")
    from equilibria.files import names

    names.published.cache_clear()
    assert fingerprint(cell(source)) != first
    names.published.cache_clear()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import threading\nLOCK = threading.Lock()\ndef cell(x):\n    with LOCK: return x",
            "reads LOCK: a _thread.lock",
        ),
        ("import sys\nout = open('/dev/null')\ndef cell(x): return out", "reads out: a _io.TextIOWrapper"),
        ("made = (i for i in range(3))\ndef cell(x): return next(made)", "reads made: a builtins.generator"),
        ("def cell(x): return eval('x + 1')", r"reads eval: eval\(\), which can read anything"),
        ("def f(x): exec('y = 1')\ndef cell(x): return f(x)", r"reads f: .*reads exec: exec\(\), which"),
        ("def cell(x): return globals()['y']", r"globals\(\), which can read anything"),
        ("import numpy as np\nf = np.frompyfunc(lambda x: x, 1, 1)\ndef cell(x): return f(x)", "f: a numpy.ufunc"),
        ("import weakref\nclass A: pass\na = A()\nr = weakref.ref(a)\ndef cell(x): return r()", "reads r: a weakref"),
    ],
)
def test_what_cannot_be_seen_is_refused(source, message):
    with pytest.raises(Unseen, match=message):
        fingerprint(cell(source))
    with pytest.raises(Unseen):
        seen(cell(source))


def test_a_value_inside_a_transformation_is_refused():
    with pytest.raises(Unseen, match="not known yet"):
        jax.jit(lambda x: (fingerprint(x), x)[1])(1.0)


def test_what_is_nested_too_deeply_is_refused():
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(Unseen, match="nested too deeply"):
        fingerprint(nested)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Plain:
    value: object
    more: list = dataclasses.field(default_factory=list)


class Pair(collections.namedtuple("Pair", "a b")):
    """A tuple with names."""


class Module(eqx.Module):
    weights: jax.Array
    name: str = eqx.field(static=True)


def _looped(value):
    items = [value]
    items.append(items)
    return items


DIFFERENT = [
    (1, True), (1, 1.0), (0, None), ("1", 1), ("a", b"a"), (0.0, -0.0), (1, 1 + 0j), (10**5000, 10**5000 + 1),
    ("\ud800", "\ud801"), ([1], (1,)), ([[1], 2], [[1, 2]]), (["ab"], ["a", "b"]), ({1: 2}, {2: 1}), ({1}, [1]),
    (set(), frozenset()), ({"a": {"b": 1}}, {"a": 1, "b": 1}), (range(3), range(4)), (slice(1), slice(2)),
    (np.zeros(3), np.zeros((3, 1))), (np.zeros(2), np.zeros(2, np.float32)), (np.ones(2), [1.0, 1.0]),
    (np.ones(2, ml_dtypes.float8_e4m3fn).view("u1").view(ml_dtypes.float8_e5m2), np.ones(2, ml_dtypes.float8_e4m3fn)),
    (np.zeros(2, [("a", "i4"), ("b", "f4")]), np.zeros(2, [("a", "f4"), ("b", "i4")])),
    (np.ma.masked_array([1, 2], [0, 1]), np.ma.masked_array([1, 2], [0, 0])),
    (np.array([[1], None], dtype=object), np.array([[2], None], dtype=object)),
    (jax.random.key(0), jax.random.key(1)), (jax.random.key(0), jax.random.key(0, impl="rbg")),
    (jax.random.key(0), jax.random.key_data(jax.random.key(0))), (Colour.RED, Colour.BLUE), (Plain(1), Plain(2)),
    (Plain(1, [2]), Plain(1, [3])), (Pair(1, 2), Pair(2, 1)), (Pair(1, 2), (1, 2)),
    (Module(jnp.ones(2), "a"), Module(jnp.ones(2), "b")), (Module(jnp.ones(2), "a"), Module(jnp.zeros(2), "a")),
    (collections.defaultdict(list), collections.defaultdict(set)), (collections.deque([1], 2), collections.deque([1], 3)),
    (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)), (_looped(1), _looped(2)),
    (functools.partial(pow, 2), functools.partial(pow, 3)), (np.random.default_rng(0), np.random.default_rng(1)),
    (np.random.default_rng(0).normal, np.random.default_rng(1).normal), (np.sin, np.cos), (jnp.sin, jnp.cos), (len, max),
    (int, float), (optax.adam(0.1), optax.adam(0.2)), (optax.sgd(optax.linear_schedule(1.0, 0.1, 9)), optax.sgd(1.0)),
    (optax.sgd(optax.linear_schedule(1.0, 0.1, 9)), optax.sgd(optax.linear_schedule(1.0, 0.1, 8))),
    (eq.pcd(1), eq.pcd(2)), (eq.rbm(3, 2, key=0), eq.rbm(3, 2, key=1)), (eq.Spin(), eq.Binary()),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DIFFERENT)))
def test_other_values_have_other_fingerprints(number):
    first, second = DIFFERENT[number]
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(first)


def test_equal_values_have_equal_fingerprints():
    assert fingerprint(jnp.arange(3)) == fingerprint(np.arange(3, dtype=np.int32))
    assert fingerprint(np.arange(6).reshape(2, 3).T) == fingerprint(np.arange(6).reshape(2, 3).T.copy())
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint(_looped(1)) == fingerprint(_looped(1))
    assert fingerprint(tuple(optax.adam(0.1))) == fingerprint(tuple(optax.adam(0.1)))
    assert fingerprint(eq.rbm(3, 2, key=0)) == fingerprint(eq.rbm(3, 2, key=0))
    assert fingerprint(Plain([1])) == fingerprint(Plain([1]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(first=VALUES, second=VALUES)
def test_fingerprints_agree_where_values_do(first, second):
    """`repr` tells apart what == does not: 1 and True, 0.0 and -0.0; of the order of dicts it says nothing."""

    def told(value):
        if isinstance(value, dict):
            return "{" + ", ".join(sorted(f"{name!r}: {told(item)}" for name, item in value.items())) + "}"
        if isinstance(value, (list, tuple)):
            return f"{type(value).__name__}({', '.join(map(told, value))})"
        return repr(value)

    assert (fingerprint(first) == fingerprint(second)) == (told(first) == told(second))


IN_A_PROCESS = """
import functools, re, sys
import numpy as np, jax, jax.numpy as jnp, optax
from scipy.special import expit
from scipy.stats import norm
import equilibria as eq
from equilibria.files.identity import fingerprint
NAMES = {"b", "a", ("c", 1), frozenset({"x", "y"})}
TABLE = {name: len(name) for name in {"a", "bb", "ccc"}}
class Study:
    scale = {"one", "two"}
    def __init__(self, data): self.data = data
    def cell(self, x, n=3):
        return norm.cdf(x) + expit(x) + jnp.sum(self.data) + len(NAMES) + TABLE["a"] + n
@jax.jit
def compiled(x): return Study(x).cell(x)
things = [Study(np.arange(4)).cell, compiled, eq.pcd(1), tuple(optax.adam(0.1)), re.compile("a+"), lambda x: NAMES]
print(fingerprint(things))
"""


def test_fingerprints_are_the_same_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == 16


def test_looking_changes_nothing():
    lock = threading.Lock()
    table = {"lock": lock, "array": np.arange(3)}
    with pytest.raises(Unseen):
        fingerprint(table)
    assert table == {"lock": lock, "array": table["array"]}
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state
    fingerprint(generator)
    assert generator.bit_generator.state == before


def test_functions_of_this_package_are_looked_at_when_they_are_what_is_asked_for():
    """The cells of a figure: they change between versions while somebody works on them."""
    namespace = {"__name__": "equilibria.papers.made_up", "N": 1}
    exec("def cell(x): return N * x", namespace)
    before = seen(namespace["cell"])
    namespace["N"] = 2
    assert {name for name, value in seen(namespace["cell"]).items() if value != before[name]} == {"N"}
    assert set(seen(eq.overlap)) >= {"code", "default arguments"}

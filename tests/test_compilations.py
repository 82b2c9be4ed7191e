"""How many programs a whole first call compiles: the counts in compilations.json are held, and no program comes twice.

A program is some 20 ms of a first call at least, and the main one of a call seconds. Counted are all that XLA is asked for, by
operations outside compiled code as well, with JAX's caches empty and what a call is given made before. `python
tests/test_compilations.py` writes the table anew; a number that has grown is to be explained.
"""

import inspect
import json
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import equilibria as eq
from compilations import compilations
from first_calls import CALLS, NOT_COMPUTED

TABLE = Path(__file__).with_name("compilations.json")
ROOMS = {"": eq, "theory.": eq.theory, "estimators.": eq.estimators, "data.": eq.data}


def programs(call):
    """What a first call compiles."""
    jax.clear_caches()
    with compilations() as found:
        call()
    return found


def counted(found):
    """The row of the table."""
    return {"programs": len(found), "of one name": max(Counter(each.name for each in found).values(), default=0)}


def repeated(found):
    """Programs that were compiled more than once for the same shapes.

    JAX's own operations have other sizes or types to come out with, which does not show, and take three arrays at the most.
    """
    again = Counter(each for each in found if each.takes.count("ShapedArray") > 3)
    return {program: count for program, count in again.items() if count > 1}


@pytest.fixture(scope="module")
def held():
    yield json.loads(TABLE.read_text())
    jax.clear_caches()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of what two passes over a few rows have learned
@pytest.mark.parametrize("name", CALLS)
def test_a_first_call_compiles_no_more_than_before_and_nothing_twice(name, held):
    found, most = programs(CALLS[name]), held[name]
    named = Counter(each.name for each in found)
    assert len(found) <= most["programs"], f"{dict(named)}; the table has {most}"
    assert {program: count for program, count in named.items() if count > most["of one name"]} == {}
    assert repeated(found) == {}


def test_a_program_that_is_compiled_for_a_weak_type_and_again_is_seen():
    added = jax.jit(lambda a, b, c, d: a + b + c + d)
    with compilations() as found:
        added(1.0, 1.0, 1.0, 1.0)
        added(1.0, 1.0, 1.0, jnp.float32(1.0))
    assert list(repeated(found).values()) == [2]


def test_every_public_function_is_called():
    """By its own name, by a recipe's that a call is made with, or it computes nothing."""
    words = {word for name in CALLS for word in name.replace(",", "").split()}
    called = inspect.getsource(inspect.getmodule(CALLS["key"]))
    missing = [
        f"{room}{name}"
        for room, module in ROOMS.items()
        for name in dir(module)
        if (inspect.isfunction(getattr(module, name)) or room == "estimators.")
        and not name.startswith("_")
        and f"{room}{name}" not in words | NOT_COMPUTED
        and f"eq.{room}{name}(" not in called
    ]
    assert missing == []


if __name__ == "__main__":
    table = {}
    for name, call in CALLS.items():
        found = programs(call)
        table[name] = counted(found)
        print(f"{len(found):3d} {name}: {dict(Counter(each.name for each in found))}", flush=True)
    TABLE.write_text(json.dumps(table, indent=2) + "\n")

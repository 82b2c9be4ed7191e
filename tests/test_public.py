"""The public surface: every promised name is there, documented, with an example, and loads lazily."""

import inspect
import subprocess
import sys

import pytest

import equilibria as eq

PROMISED = [
    "rbm",
    "hopfield",
    "layered",
    "Binary",
    "Clipped",
    "Spin",
    "Gaussian",
    "equilibrate",
    "sample",
    "Sweeps",
    "train",
    "pcd",
    "overlap",
    "theory",
    "estimators",
    "data",
    "cite",
]
MODULES = {"theory", "estimators", "data"}


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_exist(name):
    assert hasattr(eq, name)


@pytest.mark.parametrize("name", [name for name in dir(eq) if name not in MODULES])
def test_every_public_name_is_documented_with_an_example(name):
    thing = getattr(eq, name)
    documented = inspect.getdoc(thing) or ""
    assert documented
    result = hasattr(thing, "_fields") or (isinstance(thing, type) and issubclass(thing, Exception))
    shown_by_others = {"Equilibrium", "Equilibrator", "Unit", "Phase", "Recipe", "load_network", "load_synapses"}
    assert ">>>" in documented or result or name in shown_by_others


def test_importing_the_package_does_not_import_jax():
    code = "import sys, equilibria; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        eq.nonsense  # noqa: B018


def test_topics_to_cite_are_checked():
    with pytest.raises(ValueError, match=r"topic: got 'x'; allowed: .*'hopfield'"):
        eq.cite("x")
    assert eq.cite().count("@") == 8

"""The public surface: every promised name is there, documented, with an example, and loads lazily."""

import inspect
import subprocess
import sys

import pytest

import equilibria as eq

PROMISED = """
Binary Clipped Gaussian Spin Sweeps cite data dense equilibrate estimators grid hopfield layered log_likelihood
log_partition overlap pcd rbm sample spectrum theory train
""".split()  # noqa: SIM905
ESTIMATORS = ("RBM", "HopfieldMemory", "EquilibriumClassifier", "EquilibriumRegressor", "BinarySynapseRBM")
MODULES = {"theory", "estimators", "data"}


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_exist(name):
    assert hasattr(eq, name)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_promised_estimators_exist(name):
    assert hasattr(eq.estimators, name)


def test_promised_theory():
    assert 0.98 < eq.theory.hopfield(load=0.1, temperature=0.2, sleep=0.0).m < 1
    assert eq.theory.hopfield_capacity(sleep=1.0, temperature=0.0) == pytest.approx(0.386596, abs=1e-5)


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

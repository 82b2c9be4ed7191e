"""The public surface: every promised name is there, exported once, documented with its arguments and an example."""

import inspect
import json
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest

import equilibria as eq

PROMISED = """
Binary Clipped Gaussian Spin Sweeps cite data dense equilibrate estimators grid hopfield layered log_likelihood
log_partition overlap pcd rbm sample spectrum theory train
""".split()  # noqa: SIM905
ESTIMATORS = ("RBM", "HopfieldMemory", "EquilibriumClassifier", "EquilibriumRegressor", "BinarySynapseRBM")
ROOMS = {"equilibria": eq, "theory": eq.theory, "estimators": eq.estimators, "data": eq.data}
PUBLIC = {
    f"{room}.{name}": getattr(module, name)
    for room, module in ROOMS.items()
    for name in dir(module)
    if not inspect.ismodule(getattr(module, name)) and not name.startswith("__")
}


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_exist(name):
    assert hasattr(eq, name)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_promised_estimators_exist(name):
    assert hasattr(eq.estimators, name)


def test_promised_theory():
    assert 0.98 < eq.theory.hopfield(load=0.1, temperature=0.2, sleep=0.0).m < 1
    assert eq.theory.hopfield_capacity(sleep=1.0, temperature=0.0) == pytest.approx(0.386596, abs=1e-5)


def test_every_public_name_is_exported_once():
    """No thing has two public names, and none has another name than where it is defined."""
    places: dict[int, list[str]] = {}
    for name, thing in PUBLIC.items():
        places.setdefault(id(thing), []).append(name)
    assert [names for names in places.values() if len(names) > 1] == []
    assert [name for name, thing in PUBLIC.items() if thing.__name__ != name.rpartition(".")[2]] == []


def section(documented, *titles):
    """The lines under the first of these titles that a docstring has, up to the next blank line; None without one."""
    for title in titles:
        if found := re.search(rf"^{title}:\n((?: .*\n?)+)", documented, flags=re.MULTILINE):
            return found[1]
    return None


def arguments(thing):
    """What a caller can give, by name; for a result that is made for the caller, its fields."""
    if isinstance(thing, type) and issubclass(thing, (Exception, Enum)):
        return []
    if inspect.isabstract(thing):  # a contract: what it takes is up to the classes that keep it
        return []
    return [name for name in inspect.signature(thing).parameters if name not in ("args", "kwargs")]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name):
    """A first line, a line for every argument, what comes back, and an example that runs with the doctests."""
    thing = PUBLIC[name]
    documented = inspect.cleandoc(thing.__doc__ or "") + "\n"
    assert re.match(r"\S.*[.:]\n", documented), "no first line"
    told = section(documented, "Args", "Attributes") or ""
    missing = [
        given for given in arguments(thing) if not re.search(rf"^ +\*{{0,2}}{given}: \S", told, flags=re.MULTILINE)
    ]
    assert not missing, f"no line for {', '.join(missing)}"
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        assert section(documented, "Returns", "Yields"), "nothing on what it returns"
    assert ">>>" in documented, "no example"


def test_importing_the_package_does_not_import_jax():
    code = "import sys, equilibria; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_one_version_everywhere():
    """That of the package is what is installed, cited and listed."""
    root = Path(__file__).parents[1]
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited is not None
    assert cited[1] == json.loads((root / "codemeta.json").read_text())["version"] == eq.__version__


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        eq.nonsense  # noqa: B018


def test_topics_to_cite_are_checked():
    with pytest.raises(ValueError, match=r"topic: got 'x'; allowed: .*'hopfield'"):
        eq.cite("x")
    assert eq.cite().count("@") == 12

"""Networks in files: what a constructor refuses, a file may not hold either."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
from equilibria import files
from equilibria.model.saving import describe
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.saving import load_synapses, save_synapses

UNITS = [eq.Spin(), eq.Binary(), eq.Gaussian(2.0), eq.Clipped(0.5), eq.Graded(0.7), eq.GradedSpin(), eq.OneHot()]


def same(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    return all(
        np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(*map(jax.tree.leaves, (left, right)), strict=True)
    )


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: type(unit).__name__)
def test_every_unit_comes_back(tmp_path, unit):
    network = eq.rbm(4, 3, visible=unit, key=0)
    eq.save_network(tmp_path, network)
    assert same(eq.load_network(tmp_path), network)


class Plain(eq.Spin):
    """A unit of one's own, with fields that are called as words of the format."""

    kind: str = eqx.field(static=True, default="a word")
    array: jax.Array = eqx.field(default_factory=lambda: jnp.ones(2))
    levels_of: tuple[int, ...] = eqx.field(static=True, default=(1, 2))


class Held(eq.Spin):
    answer: object = eqx.field(static=True, default=np.tanh)


def test_fields_of_ones_own_come_back_or_are_refused(tmp_path):
    network = eq.Network([eq.Layer("a", Plain(), jnp.zeros(3))])
    eq.save_network(tmp_path / "a", network)
    loaded = eq.load_network(tmp_path / "a")
    assert same(loaded, network)
    assert (loaded.layers[0].unit.kind, loaded.layers[0].unit.levels_of) == ("a word", (1, 2))
    with pytest.raises(ValueError, match=r"network: got a field network.layers\[0\].unit.answer that is a numpy.ufunc"):
        eq.save_network(tmp_path / "b", eq.Network([eq.Layer("a", Held(), jnp.zeros(3))]))
    assert not (tmp_path / "b").exists()


def test_several_networks_side_by_side_come_back(tmp_path):
    data = np.random.default_rng(0).integers(0, 2, size=(20, 4))
    run = eq.train(eq.rbm(4, 3, key=0), data, eq.cd(1), steps=2, runs=3, batch_size=10, checkpoint=tmp_path, key=1)
    assert same(eq.load_network(tmp_path), run.network)


def made_by_hand(folder, network, change):
    """A whole file, with a good digest, whose content was changed."""
    arrays, structure = describe(network)
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    found = change(arrays, structure)
    files.save(folder, 0, arrays, {"model": structure if found is None else found})
    return folder


def _set(arrays, name, value):
    arrays[name] = value


BIAS, WEIGHTS = "network.layers[0].bias", "network.couplings[0].weights"
LAYER = ("fields", "layers", 0)


def _at(structure, path, name, value):
    for step in path:
        structure = structure[step]
    if value is KeyError:
        del structure[name]
    else:
        structure[name] = value


BY_HAND = {
    "nan in a bias": (lambda a, s: _set(a, BIAS, np.full(4, np.nan, np.float32)), "layer 'visible': got numbers that are not"),
    "infinite weights": (lambda a, s: _set(a, WEIGHTS, np.full((4, 3), np.inf, np.float32)), "Dense: got numbers that are not"),
    "complex weights": (lambda a, s: _set(a, WEIGHTS, np.ones((4, 3), np.complex64)), "numbers of type complex64"),
    "another number of biases": (lambda a, s: _set(a, BIAS, np.zeros(5, np.float32)), r"couplings: got \(4, 3\) between"),
    "flat weights": (lambda a, s: _set(a, WEIGHTS, np.zeros(12, np.float32)), r"weights: got shape \(12,\)"),
    "a missing array": (lambda a, s: (a.pop(BIAS), None)[1], "array: got 'network.layers"),
    "a kind that is not known": (lambda a, s: _at(s, LAYER, "kind", "Layers"), "kind: got 'Layers'; allowed: 'Network'"),
    "an abstract kind": (lambda a, s: _at(s, (*LAYER, "fields", "unit"), "kind", "Unit"), "kind: got 'Unit'"),
    "a missing field": (lambda a, s: _at(s, (*LAYER, "fields"), "bias", KeyError), "Layer: got no bias; allowed: the fields"),
    "a field too much": (lambda a, s: _at(s, (*LAYER, "fields"), "more", 1), "Layer: got more; allowed: the fields bias"),
    "a layer that is none": (lambda a, s: _at(s, ("fields", "layers"), 0, "visible"), "layers: got"),
    "a unit that is none": (lambda a, s: _at(s, (*LAYER, "fields"), "unit", 3), "unit: got"),
    "a name that is none": (lambda a, s: _at(s, (*LAYER, "fields"), "name", 3), "name: got"),
    "two layers of one name": (lambda a, s: _at(s, (*LAYER, "fields"), "name", "hidden"), "a different name for each layer"),
    "ends that are not there": (
        lambda a, s: _at(s, ("fields", "couplings", 0, "fields"), "ends", ["visible", "deep"]),
        "layer: got 'deep'; allowed: 'visible', 'hidden'",
    ),
    "three ends": (
        lambda a, s: _at(s, ("fields", "couplings", 0, "fields"), "ends", ["visible", "hidden", "deep"]),
        "ends: got .* allowed: the names of two layers",
    ),
    "a layer in place of the network": (lambda a, s: s["fields"]["layers"][0], "model: got Layer; allowed: a network"),
    "nothing": (lambda a, s: 0, "model: got int; allowed: a network"),
    "no fields": (lambda a, s: {"kind": "Network"}, "'fields'"),
    "something that no file holds": (
        lambda a, s: _at(s, (*LAYER, "fields"), "unit", {"unknown": "builtins.function", "name": "unit"}),
        "unit: got a builtins.function",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", BY_HAND)
def test_what_no_constructor_makes_is_refused(tmp_path, change):
    alter, message = BY_HAND[change]
    made_by_hand(tmp_path, eq.rbm(4, 3, key=0), alter)
    with pytest.raises(files.CheckpointError, match=f"holds no network that can be built .*{message}"):
        eq.load_network(tmp_path)


@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("unit", [eq.Gaussian(), eq.Clipped(), eq.Graded()])
def test_units_without_a_law_are_refused(tmp_path, unit, value):
    name = "network.layers[0].unit.stiffness"
    made_by_hand(tmp_path, eq.rbm(4, 3, visible=unit, key=0), lambda a, s: _set(a, name, np.float32(value)))
    with pytest.raises(files.CheckpointError, match=r"stiffness: got|not finite"):
        eq.load_network(tmp_path)


def test_units_that_do_not_fit_their_layer_are_refused(tmp_path):
    name = "network.layers[0].unit.stiffness"
    made_by_hand(
        tmp_path, eq.rbm(1, 3, visible=eq.Clipped(), key=0), lambda a, s: _set(a, name, np.ones(7, np.float32))
    )
    with pytest.raises(files.CheckpointError, match="one answer for each neuron"):
        eq.load_network(tmp_path)


def test_couplings_within_a_layer_are_checked(tmp_path):
    network = machines.DISCRETE["dense"]
    crooked = np.triu(np.ones((6, 6), np.float32), 1)
    for weights, message in ((crooked, "symmetric"), (np.eye(6, dtype=np.float32), "zeros on the diagonal")):
        made_by_hand(tmp_path / message[:4], network, lambda a, s, w=weights: _set(a, WEIGHTS, w))
        with pytest.raises(files.CheckpointError, match=message):
            eq.load_network(tmp_path / message[:4])


def test_a_run_of_something_else_is_no_network(tmp_path):
    files.save(tmp_path, 3, {"a": np.ones(2)}, {"setup": {}})
    with pytest.raises(files.CheckpointError, match="model: got NoneType; allowed: a network"):
        eq.load_network(tmp_path)


def test_a_folder_where_a_run_is_at_work_is_not_written_to(tmp_path):
    with files.locked(tmp_path), pytest.raises(ValueError, match=r"path: got .* is at work"):
        eq.save_network(tmp_path, eq.rbm(4, 3, key=0))
    assert files.latest(tmp_path) is None


MACHINE = Synapses(np.random.default_rng(0).standard_normal((9, 3)), bias=np.linspace(-1, 1, 9), temperature=0.5)


def test_synapses_come_back_bit_for_bit(tmp_path):
    save_synapses(tmp_path / "machine", MACHINE)
    assert same(load_synapses(tmp_path / "machine"), MACHINE.network())


def test_what_would_not_come_back_is_not_written(tmp_path):
    path = tmp_path / "machine"
    weights = np.array([[1.0, -1.0], [1.0, 1.0 + 1e-6]])
    with pytest.raises(ValueError, match="weights of several sizes"):
        save_synapses(path, eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Spin()))
    with pytest.raises(ValueError, match="network: got Binary units; allowed: spins"):
        save_synapses(path, eq.rbm(weights=np.sign(weights), visible=eq.Spin(), hidden=eq.Binary()))
    assert not path.exists()


SIGNS = np.packbits(np.ones(27, bool))
HEADER = {"shape": [9, 3], "scale": 0.5}
WRONG_SYNAPSES = {
    "a size that the file has not": (
        SIGNS,
        HEADER | {"shape": [40_000, 40_000]},
        "allowed: one bit for each of 40000 x 40000",
    ),
    "an absurd size": (SIGNS, HEADER | {"shape": [2**62, 2**62]}, "shape: got 4611686018427387904"),
    "a negative size": (SIGNS, HEADER | {"shape": [-9, -3]}, "shape: got -9"),
    "a size that is none": (SIGNS, HEADER | {"shape": ["9", 3]}, "shape: got '9'"),
    "three sizes": (SIGNS, HEADER | {"shape": [9, 3, 1]}, "too many values"),
    "a scale that is none": (SIGNS, HEADER | {"scale": float("nan")}, "scale: got"),
    "a scale of nothing": (SIGNS, HEADER | {"scale": 0.0}, "scale: got"),
    "a scale beyond single precision": (SIGNS, HEADER | {"scale": 1e300}, "finite"),
    "a scale beyond all precision": (SIGNS, HEADER | {"scale": 10**400}, "scale: got"),
    "no scale": (SIGNS, {"shape": [9, 3]}, "'scale'"),
    "signs of another kind": (SIGNS.astype(np.int32), HEADER, "signs: got shape .* of int32"),
    "no header": (SIGNS, None, "NoneType"),
}


@pytest.mark.parametrize("change", WRONG_SYNAPSES)
def test_wrong_synapses_are_refused(tmp_path, change):
    signs, header, message = WRONG_SYNAPSES[change]
    files.write(tmp_path / "machine", {"signs": signs}, {"synapses": header})
    with pytest.raises(files.CheckpointError, match=f"machine: holds no binary synapses .*{message}"):
        load_synapses(tmp_path / "machine")


@pytest.mark.parametrize(
    "biases",
    [{"visible": np.zeros(8)}, {"hidden": np.full(3, np.nan)}, {"visible": np.zeros((9, 9))}, {"deep": np.zeros(3)}],
)
def test_wrong_biases_are_refused(tmp_path, biases):
    files.write(tmp_path / "machine", {"signs": SIGNS, **biases}, {"synapses": HEADER})
    with pytest.raises(files.CheckpointError, match="holds no binary synapses"):
        load_synapses(tmp_path / "machine")


LIMITED = """
import resource, sys
from equilibria import files
from equilibria.synapses.saving import load_synapses
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_synapses(sys.argv[1])
except files.CheckpointError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_an_absurd_size_is_refused_before_memory_is_taken(tmp_path):
    """40000 x 40000 weights, claimed by a tiny file, would be 12.8 GB."""
    files.write(tmp_path / "machine", {"signs": SIGNS}, {"synapses": HEADER | {"shape": [40_000, 40_000]}})
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "machine")]
    taken = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(taken) < 100_000  # kB

"""The figures about memory: their parts are right, and each runs from configuration to claims in a tiny version."""

import itertools

import numpy as np
import pytest
import xarray as xr

import equilibria as eq
from equilibria import files, papers, plots
from equilibria.measure.likelihood import unnormalised
from equilibria.papers.agliari2024 import (
    ags,
    common,
    complexity,
    curie_weiss,
    dreaming,
    equivalence,
    examples,
    examples_phases,
    initialisation,
    minima,
    phases,
    scaling,
)

TINY = {
    ags: ags.Config(size=60, temperatures=(0.0, 0.3), loads=(0.05, 0.4), chains=3, sweeps=4),
    dreaming: dreaming.Config(size=60, sleeps=(0.0, 1.0), loads=(0.05, 0.9), chains=3, sweeps=4),
    examples: examples.Config(size=60, count=2, examples=(5, 20), sweeps=4),
    equivalence: equivalence.Config(small=6, size=60, count=3, temperatures=(0.2, 0.5), sweeps=6),
    initialisation: initialisation.Config(hidden=(10,), looks=(0, 1), steps=1, chains=20, annealing=30),
    complexity: complexity.Config(examples=20, hidden=3, epochs=1, sweeps=5, replicas=10),
    minima: minima.Config(sizes=(8, 12, 16), large=(12,), networks=2, chains=100, steps=60),
    scaling: scaling.Config(sizes=(60, 120), ratios=(0.3, 1.0, 4.0), chains=5, sweeps=5, networks=2),
    phases: phases.Config(
        sleeps=(0.0, phases.LONG), grid=6, loads=(0.05, 0.8), temperatures=(0.1, 1.4), size=200, small=60, chains=8,
        sweeps=10, rounds=60, rungs=4,
    ),
    examples_phases: examples_phases.Config(
        qualities=(0.9,), examples=(5,), sleeps=(0.0, 1.0), lines=4, shares=(0.5, 1.6), size=300, chains=10, sweeps=20
    ),
}  # fmt: skip
# What is wrong when the claim in the value is not held, and a change of the result that must make it so.
WRONG = {
    ags: ("Retrieval is the ground state", lambda d: d.assign(first_order=d["first_order"] + 0.01)),
    dreaming: ("Long sleep brings", lambda d: d.assign(long=d["long"] - 0.1)),
    examples: (
        "Supervision never hurts", lambda d: d.assign(curve=d["curve"].isel(rule=[1, 0]).assign_coords(rule=d["rule"])),
    ),
    equivalence: ("Z of the Hopfield network", lambda d: d.assign(log_z=d["log_z"] * xr.DataArray([1, 1.001], dims="kind"))),
    initialisation: (
        "10 hidden: Hopfield initialisation is ahead in likelihood after epoch 0",
        lambda d: d.assign(likelihood=d["likelihood"].isel(start=[1, 0, 2]).assign_coords(start=d["start"])),
    ),
    complexity: ("Classes differ in complexity", lambda d: d.assign(example_mean=0 * d["example_mean"])),
    minima: ("One pattern", lambda d: d.assign(exact=d["exact"] + 0.1)),
    scaling: (None, None),
    phases: (
        "Longer sleep stores more",
        lambda d: d.assign(spinodal=d["spinodal"].isel(sleep=[1, 0]).assign_coords(sleep=d["sleep"])),
    ),
    examples_phases: ("Loads at which archetypes", lambda d: d.assign(by_entropy=-d["by_entropy"])),
}  # fmt: skip
QUICK = (dreaming, initialisation, minima)


@pytest.mark.parametrize(
    "module",
    [module if module in QUICK else pytest.param(module, marks=pytest.mark.slow) for module in TINY],
    ids=lambda module: module.__name__.rsplit(".", 1)[1],
)
def test_from_configuration_to_claims(module, tmp_path):
    """A claim that does not depend on the size holds, and fails once the result is spoiled."""
    figure = papers.find(f"agliari2024/{module.__name__.rsplit('.', 1)[1]}")
    dataset = figure.computed(TINY[module])
    files.save_dataset(tmp_path / "result.nc", dataset)
    dataset = files.load_dataset(tmp_path / "result.nc")
    with plots.style():
        figure.plot(dataset).savefig(tmp_path / "figure.png", dpi=30)
    beginning, spoil = WRONG[module]
    if beginning is None:
        assert figure.claims(dataset)
        return
    verdicts = []
    for found in (dataset, spoil(dataset)):
        (claim,) = [claim for claim in figure.claims(found) if claim.says.startswith(beginning)]
        verdicts.append(claim.verdict)
    assert verdicts == ["held", "not held"]


def test_finished_networks_are_kept_and_not_simulated_again(tmp_path, monkeypatch):
    """A run that was stopped goes on: of its six networks those that are there are read, and the numbers are the same."""
    config = dreaming.Config(size=60, sleeps=(0.0, 1.0), loads=(0.05, 0.5, 0.9), chains=3, sweeps=4)
    recall, calls = eq.recall_at_load, []

    def stopped(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return recall(*arguments, **options)

    monkeypatch.setattr(eq, "recall_at_load", stopped)
    with pytest.raises(KeyboardInterrupt):
        dreaming.run(config, tmp_path)
    again = dreaming.run(config, tmp_path)
    assert len(calls) == 3 + 4
    monkeypatch.setattr(eq, "recall_at_load", recall)
    xr.testing.assert_identical(again, dreaming.run(config))


def test_the_edge_is_where_half_is_lost():
    def simulated(*kept):
        return xr.Dataset({"retrieved": ("load", list(kept))}, {"load": [0.1, 0.2, 0.3]})

    assert common.edge(simulated(1.0, 0.6, 0.2)) == pytest.approx(0.225)
    assert np.isnan(common.edge(simulated(1.0, 1.0, 0.9)))
    assert np.isnan(common.edge(simulated(0.1, 0.0, 0.0)))


def test_deviations_near_the_end_of_the_branch_do_not_count():
    dataset = xr.Dataset(
        {"overlap": ("load", [0.9, 0.2]), "theory": ("load", [0.95, 0.9]), "capacity": 0.138}, {"load": [0.1, 0.13]}
    )
    assert common.deviation(dataset) == pytest.approx(0.05)


def test_the_projection_rule_as_a_machine():
    """Summed over its Gaussian hidden neurons the machine is the Hopfield network of the pseudo-inverse, at temperature 1/β."""
    patterns = np.asarray(eq.data.random_patterns(3, 8, key=eq.key(0)))
    beta = 0.7
    machine = eq.rbm(weights=initialisation.projector(patterns, beta), visible=eq.Spin(), hidden=eq.Gaussian())
    memory = eq.hopfield(patterns, sleep=np.inf)
    states = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))
    first = -beta * np.asarray(memory.energy({"neurons": states}), float)
    second = np.asarray(unnormalised(machine, {"visible": states}, 1.0), float)
    np.testing.assert_allclose(first - first.mean(), second - second.mean(), atol=1e-5)  # up to a constant


def test_patterns_of_one_a_class_are_the_class_averages():
    images = eq.data.digits()
    spins, labels = eq.data.binarise(images.train_images), images.train_labels
    found = initialisation.class_patterns(10, spins, labels, 0)
    np.testing.assert_allclose(found[3], spins[labels == 3].mean(0), atol=1e-5)
    weights = initialisation.projector(found, 2.0)
    np.testing.assert_allclose(weights.T @ weights, 2 * np.eye(10), atol=1e-6)


def test_the_law_of_the_magnet_adds_up():
    """Against all states of eight spins."""
    states = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))
    weight = np.exp(8 * states.mean(1) ** 2 / (2 * 0.8))
    m, law = curie_weiss.exact_law(8, 0.8)
    for value, share in zip(m, law, strict=True):
        assert share == pytest.approx(weight[np.isclose(states.mean(1), value)].sum() / weight.sum())


def test_the_line_of_broken_symmetry_is_drawn_where_it_is():
    """Retrieval ends before replica symmetry breaks, but for low temperatures: there alone is a line."""
    heat = np.array([0.0, 0.02, 0.2, 0.5])
    lines = eq.theory.hopfield_lines(heat)
    broken = np.isfinite(np.where(lines.almeida_thouless < (1 - 1e-6) * lines.spinodal, lines.almeida_thouless, np.nan))
    assert broken.tolist() == [True, True, False, False]


def test_pairs_are_counted_once():
    overlaps = complexity.off_diagonal(np.array([[1.0, 1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]]))
    np.testing.assert_allclose(overlaps, [0.5, -1, -0.5])

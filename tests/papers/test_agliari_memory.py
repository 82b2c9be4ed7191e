"""The figures about memory: their parts are right, and each runs from configuration to claims in a tiny version."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import equilibria as eq
from equilibria import files, papers, plots
from equilibria.papers.agliari2024 import ags, common, complexity, dreaming, equivalence, examples, initialisation

TINY = {
    ags: ags.Config(size=60, temperatures=(0.0, 0.3), loads=(0.05, 0.4), chains=3, sweeps=4),
    dreaming: dreaming.Config(size=60, sleeps=(0.0, 1.0), loads=(0.05, 0.9), chains=3, sweeps=4),
    examples: examples.Config(size=60, count=2, examples=(5, 20), sweeps=4),
    equivalence: equivalence.Config(small=6, size=60, count=3, temperatures=(0.2, 0.5), sweeps=6),
    initialisation: initialisation.Config(hidden=(10,), epochs=1, seeds=1, batch_size=100),
    complexity: complexity.Config(examples=20, hidden=3, epochs=1, sweeps=5, replicas=10),
}
# Claims that do not depend on the size of the simulation.
SURE = {
    ags: ["Patterns are retrieved at T = 0", "Retrieval is the ground state"],
    dreaming: ["Long sleep brings"],
    examples: ["Supervision never hurts"],
    equivalence: ["Z of the Hopfield network"],
    initialisation: ["10 hidden units: Hopfield initialisation is ahead"],
    complexity: ["Classes differ in complexity"],
}


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(module, marks=pytest.mark.slow) if module in (ags, complexity, equivalence, examples) else module
        for module in TINY
    ],
    ids=lambda module: module.__name__.rsplit(".", 1)[1],
)
def test_from_configuration_to_claims(module, tmp_path):
    figure = papers.find(f"agliari2024/{module.__name__.rsplit('.', 1)[1]}")
    dataset = figure.computed(TINY[module])
    files.save_dataset(tmp_path / "result.nc", dataset)
    dataset = files.load_dataset(tmp_path / "result.nc")
    with plots.style():
        figure.plot(dataset).savefig(tmp_path / "figure.png", dpi=30)
    claims = figure.claims(dataset)
    for beginning in SURE[module]:
        (claim,) = [claim for claim in claims if claim.says.startswith(beginning)]
        assert claim.held, claim


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


def test_the_classifier_takes_the_most_probable_label():
    """Against the joint law summed over a fine grid of the one hidden neuron, by hand."""
    rng = np.random.default_rng(0)
    spins = np.sign(rng.normal(size=(50, 6)))
    machine = initialisation.classifier(spins, rng.normal(size=(6, 1)), 2 * rng.normal(size=(10, 1)))
    to_images, to_labels = (np.asarray(coupling.weights) for coupling in machine.couplings)
    z = np.linspace(-30, 30, 6001)
    weight = np.exp((spins @ to_images + to_labels[:, 0])[:, :, None] * z - z**2 / 2).sum(-1)
    assert initialisation.accuracy_of(machine, spins, weight.argmax(1)) == 1


def test_hopfield_weights_are_the_class_averages():
    images = eq.data.digits()
    spins, labels = eq.data.binarise(images.train_images), images.train_labels
    to_images, to_labels = initialisation.averages(10, spins, labels, eq.key(0))
    third = (spins[labels == 3].mean(0) - spins.mean(0)) / 8
    np.testing.assert_allclose(to_images[:, 3], third, atol=1e-6)
    np.testing.assert_array_equal(to_labels, np.eye(10) / 8)


def test_pairs_are_counted_once():
    overlaps = complexity.off_diagonal(np.array([[1.0, 1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]]))
    np.testing.assert_allclose(overlaps, [0.5, -1, -0.5])


def test_full_presets_are_larger():
    for module in TINY:
        quick, full = (module.PRESETS[name] for name in ("quick", "paper"))
        assert replace(quick) != full

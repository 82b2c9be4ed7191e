"""The figures about memory: their parts are right, and each runs from configuration to claims in a tiny version."""

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy.stats import wasserstein_distance

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
    retrieval,
    scaling,
)

TINY = {
    ags: ags.Config(size=60, temperatures=(0.0, 0.3), loads=(0.05, 0.4), chains=3, sweeps=4),
    dreaming: dreaming.Config(size=60, sleeps=(0.0, 1.0), loads=(0.05, 0.9), chains=3, sweeps=4),
    retrieval: retrieval.Config(draws=500),
    curie_weiss: curie_weiss.Config(
        sizes=(20, 40), temperatures=(0.5, 0.8, 1.0, 1.2), chains=30, settling=40, sweeps=100, every=10
    ),
    examples: examples.Config(size=60, count=2, examples=(5, 20), sweeps=4, repeats=2),
    equivalence: equivalence.Config(small=6, size=60, count=3, temperatures=(0.2, 0.5), sweeps=6, networks=2),
    initialisation: initialisation.Config(hidden=(10,), looks=(0, 1), steps=1, chains=20, annealing=30),
    complexity: complexity.Config(examples=20, hidden=3, epochs=1, sweeps=5, replicas=10, rungs=2),
    minima: minima.Config(sizes=(8, 12), large=(12, 32, 40, 48), networks=2, chains=100, steps=60),
    scaling: scaling.Config(sizes=(60, 120), ratios=(0.3, 1.0, 4.0), chains=5, sweeps=5, networks=2),
    phases: phases.Config(
        sleeps=(0.0, phases.LONG), grid=6, loads=(0.05, 0.8), temperatures=(0.1, 1.4), size=200, small=60, chains=8,
        sweeps=10, rounds=60, rungs=4,
    ),
    examples_phases: examples_phases.Config(
        qualities=(0.9,), examples=(5,), sleeps=(0.0, 1.0), lines=4, shares=(0.5, 1.6), size=300, chains=10, sweeps=20
    ),
}  # fmt: skip
# Claims that hold, each with a change of the result that must make it not held.
WRONG = {
    ags: {"Retrieval is the ground state": lambda d: d.assign(first_order=d["first_order"] + 0.01)},
    dreaming: {"Long sleep brings": lambda d: d.assign(long=d["long"] - 0.1)},
    examples: {
        "Supervision never hurts": lambda d: d.assign(curve=d["curve"].isel(rule=[1, 0]).assign_coords(rule=d["rule"])),
    },
    equivalence: {
        "Z of the Hopfield network": lambda d: d.assign(log_z=d["log_z"] * xr.DataArray([1, 1.001], dims="kind")),
    },
    initialisation: {
        "10 hidden: Hopfield initialisation is ahead in likelihood after epoch 0": lambda d: d.assign(
            likelihood=d["likelihood"].isel(start=[1, 0, 2]).assign_coords(start=d["start"])
        ),
        "10 hidden, normal initialisation: learning brings": lambda d: d.assign(
            likelihood=d["likelihood"].isel(epoch=[1, 0]).assign_coords(epoch=d["epoch"])
        ),
    },
    complexity: {
        "Classes differ in complexity": lambda d: d.assign(example_mean=0 * d["example_mean"]),
        "digits: examples of a class are more alike": lambda d: d.assign(between=-d["between"]),
    },
    minima: {"One pattern": lambda d: d.assign(exact=d["exact"] + 0.1)},
    scaling: {
        "and is wider than the loads are apart": lambda d: d.assign(
            crossing=d["crossing"].where(d["level"] != 0.25, d["crossing"].sel(level=0.75))
        ),
    },
    retrieval: {
        "At T = 0 the energy is a Lyapunov function": lambda d: d.assign(digit_energy=-d["digit_energy"]),
        "In between the law is peaked": lambda d: d.assign(visits=d["visits"].roll(state=4)),
        "and a start ends in the neighbourhood": lambda d: d.assign(
            planted_overlap=d["planted_overlap"].where(d["pattern"] < 0.4 * d.sizes["pattern"], 0.8)
        ),
    },
    curie_weiss: {"n-th derivatives of F": lambda d: d.assign(law=d["law"].roll(up=2))},
    phases: {
        "Longer sleep stores more": lambda d: d.assign(
            spinodal=d["spinodal"].isel(sleep=[1, 0]).assign_coords(sleep=d["sleep"])
        ),
        "Replicas tell the spin glass": lambda d: d.assign(q=1 - abs(d["q"])),
    },
    examples_phases: {
        "Loads at which archetypes": lambda d: d.assign(by_entropy=-d["by_entropy"]),
        "Examples do in place": lambda d: d.assign(overlap=d["overlap"].isel(share=[1, 0]).assign_coords(share=d["share"])),
    },
}  # fmt: skip
QUICK = (dreaming, initialisation, minima)


@pytest.mark.pictures
@pytest.mark.parametrize(
    "module",
    [module if module in QUICK else pytest.param(module, marks=pytest.mark.slow) for module in TINY],
    ids=lambda module: module.__name__.rsplit(".", 1)[1],
)
def test_from_configuration_to_claims(module, tmp_path):
    """Claims that do not depend on the size hold, and fail once the result is spoiled."""
    figure = papers.find(f"agliari2024/{module.__name__.rsplit('.', 1)[1]}")
    dataset = figure.computed(TINY[module])
    files.save_dataset(tmp_path / "result.nc", dataset)
    dataset = files.load_dataset(tmp_path / "result.nc")
    with plots.style():
        figure.plot(dataset).savefig(tmp_path / "figure.png", dpi=30)
    for beginning, spoil in WRONG[module].items():
        verdicts = []
        for found in (dataset, spoil(dataset)):
            (claim,) = [claim for claim in figure.claims(found) if claim.says.startswith(beginning)]
            verdicts.append(claim.verdict)
        assert verdicts == ["held", "not held"], beginning


def test_finished_networks_are_kept_and_not_simulated_again(tmp_path, monkeypatch):
    """A run that was stopped goes on: of its six networks those that are there are read, and the numbers are the same."""
    config = dreaming.Config(size=60, sleeps=(0.0, 1.0), loads=(0.05, 0.5, 0.9), chains=3, sweeps=4, networks=1)
    recall, calls = eq.recall_at_load, []

    def stopped(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return recall(*arguments, **options)

    capacity, known = eq.theory.hopfield_capacity, {}

    def remembered(*point):  # theory is the same each time, and takes longest
        if str(point) not in known:
            known[str(point)] = capacity(*point)
        return known[str(point)]

    monkeypatch.setattr(eq.theory, "hopfield_capacity", remembered)
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


def test_pairs_are_counted_once_and_their_law_is_that_of_the_pairs():
    states = np.sign(np.random.default_rng(0).normal(size=(30, 9)))
    counts = complexity.overlap_counts(states)
    pairs = np.array([a @ b / 9 for a, b in itertools.combinations(states, 2)])
    assert counts.sum() == 30 * 29 / 2
    assert complexity._moments(counts) == pytest.approx((pairs.mean(), pairs.std()))
    other = complexity.overlap_counts(np.sign(np.random.default_rng(1).normal(size=(20, 9)) + 0.5))
    values = np.linspace(-1, 1, 10)
    expected = wasserstein_distance(values, values, counts, other)
    assert complexity._distance(counts, other) == pytest.approx(expected)


def planted(classes=10, size=8, many=4, mean=0.0, seed=0):
    """Images near one of ten black and white pictures, which have as much in common as `mean` says; and these, (K, N)."""
    random = np.random.default_rng(seed)
    pictures = np.where(random.random((classes, size, size)) < (1 + mean) / 2, 255, 0)

    def drawn(count):
        labels = np.tile(np.arange(classes), count)
        return np.where(
            random.random((len(labels), size, size)) < 0.9, pictures[labels], 255 - pictures[labels]
        ), labels

    parts = *drawn(many), *drawn(many + 1)
    images = eq.data.Images(*(part.astype(np.uint8) for part in parts))
    return images, eq.data.binarise(pictures.astype(np.uint8))


def test_overlaps_of_two_classes_are_those_of_all_their_pairs():
    images, _ = planted(mean=0.5)
    images = images._replace(train_images=images.train_images[:-3], train_labels=images.train_labels[:-3])
    found = complexity.across(images, 3)
    spins = eq.data.binarise(images.train_images)
    classes = [spins[images.train_labels == label][:3] for label in range(10)]
    for one, other in itertools.product(range(10), repeat=2):
        pairs = [
            a @ b / 64
            for (i, a), (j, b) in itertools.product(enumerate(classes[one]), enumerate(classes[other]))
            if one != other or i != j
        ]
        np.testing.assert_allclose(found[one, other], [np.mean(pairs), np.std(pairs)], atol=1e-6)
    assert [len(own) for own in classes] == [3] * 10
    alone = complexity.across(planted(many=3)[0], 2)
    assert alone[0, 0, 0] > 0.3 > alone[0, 1, 0]  # images of one picture are more alike


def test_classes_are_read_from_the_largest_field_whatever_neurons_are_called():
    """Neurons that are the classes' own pictures name them; exchanged, of other signs and sizes they do once that is undone."""
    images, pictures = planted(mean=0.6, many=20)

    def accuracies(weights):
        machine = eq.rbm(weights=weights.T, visible=eq.Spin(), hidden=eq.Gaussian())
        return initialisation.direct_accuracies(machine, images, 150)

    def by_hand(weights):
        """Each neuron is given to the class in which it differs most from its mean."""
        known, unknown = (
            eq.data.binarise(part) @ weights.T for part in (images.train_images[:150], images.test_images)
        )
        scores = (known - known.mean(0)) / known.std(0)
        means = np.stack([scores[images.train_labels[:150] == c].mean(0) for c in range(10)])
        given = np.abs(means).argmax(0)
        assert sorted(given) == list(range(10))
        place = np.argsort(given)
        signed = ((unknown - known.mean(0)) / known.std(0))[:, place] * np.sign(means[range(10), place])
        return np.mean(signed.argmax(1) == images.test_labels)

    assert accuracies(pictures) == pytest.approx((1, by_hand(pictures)))
    turned = pictures * np.where(np.arange(10) == 3, -1, 1)[:, None]
    assert accuracies(turned)[0] == pytest.approx(0.9)  # a picture turned around is none for the largest field
    random = np.random.default_rng(5)
    changed = random.choice([-3.0, 1.0, 4.0], (10, 1)) * pictures[random.permutation(10)] + random.choice(
        [0, 2.0], (10, 1)
    )
    test = eq.data.binarise(images.test_images)
    own, matched = accuracies(changed)
    assert own == pytest.approx(np.mean((test @ changed.T).argmax(1) == images.test_labels))
    assert matched == pytest.approx(by_hand(changed))
    assert own < 0.5 < matched
    assert np.isnan(accuracies(np.concatenate([pictures, pictures]))).all()


def test_classes_that_are_not_read_from_fields_are_not_held():
    axes = ("hidden", "start", "repeat", "epoch")
    names = ("likelihood", "accuracy", "own", "matched")
    named = {"hidden": [10], "start": list(initialisation.STARTS), "epoch": [0, 1, 15]}
    good = xr.Dataset({name: (axes, np.full((1, 3, 2, 3), 0.6)) for name in names}, named)
    says = "10 hidden, {} initialisation: "
    for column, start in (("own", "Hopfield"), ("matched", "Hopfield"), ("matched", "normal")):
        bad = good.copy(deep=True)
        bad[column].loc[{"start": start, "repeat": 1, "epoch": 15}] = 0.4  # of two machines one
        failed = [claim.says for claim in initialisation.claims(bad) if claim.verdict == "not held"]
        assert len(failed) == 1
        assert failed[0].startswith(says.format(start) + ("neuron c" if column == "own" else "the largest field"))
    assert not [claim for claim in initialisation.claims(good) if claim.verdict == "not held"]


def test_derivatives_of_the_free_energy_are_the_cumulants_of_the_exact_law():
    found = curie_weiss.cumulants(curie_weiss.exact_law(60, 1.2)[1])
    expected = curie_weiss.derivatives(60, 1.2)
    np.testing.assert_allclose(found[[1, 3]], expected[[1, 3]], rtol=1e-4)
    np.testing.assert_allclose(expected[[0, 2]] / expected[[1, 3]], 0, atol=1e-6)  # odd ones vanish without a field


def test_gradient_descent_on_the_divergence_falls_at_a_small_rate():
    """At the rate of the figure it rises in about half of its steps: that is the rate, and not the gradient."""
    fast, slow = (equivalence.descended(0, steps=steps, rate=rate) for steps, rate in ((400, 0.05), (2000, 0.01)))
    assert np.diff(fast).max() > 0.5
    assert np.diff(slow).max() < 0
    assert slow[-1] < 0.005 * slow[0]


def test_exponential_growth_is_told_from_a_power_of_any_order():
    sizes = np.array([20, 32, 56, 80])

    def counted(logarithm):
        rows = np.broadcast_to(logarithm(sizes)[:, None, None], (4, 1, 2))
        return xr.Dataset({"annealed": (("large", "kind", "network"), rows)}, {"large": sizes, "kind": ["K = 0.3 N"]})

    for order in (1.0, 4.0):
        ratio, power = minima.steadiness(counted(lambda size, order=order: order * np.log(size)))
        assert float(ratio[0]) == pytest.approx(power)
        assert power < 0.7
    assert float(minima.steadiness(counted(lambda size: 0.1 * size - 3))[0][0]) == pytest.approx(1)


def test_an_exponent_is_not_made_of_widths_that_are_not_known():
    crossing = np.array([[[0.9, 1.0, 1.1]] * 3, [[0.95, 1.0, np.nan]] * 3])
    named = {"size": [500, 1000], "level": [0.75, 0.5, 0.25]}
    data = xr.Dataset({"crossing": (("size", "network", "level"), crossing)}, named)
    assert np.isnan(scaling.exponents(data)).all()
    known = data.assign(crossing=data["crossing"].fillna(1.05))
    np.testing.assert_allclose(scaling.exponents(known), -1)  # half the width at twice the size


def test_replicas_that_do_not_move_are_not_at_equilibrium():
    """Whatever their overlaps: without round trips, or where they depend on the start."""
    random = np.random.default_rng(0)

    def dataset(q, trips):
        shape = (1, 1, 1, 1, 2)
        best = np.full((*shape, 5), 0.3)
        data = {"q": ((*axes, "q_sample"), q), "best": ((*axes, "best_sample"), best), "trips": (axes, trips)}
        return xr.Dataset(data, {"start": ["random", "patterns"]})

    axes = ("sleep", "load", "temperature", "network", "start")
    alike = np.broadcast_to(random.uniform(-0.2, 0.2, 10), (1, 1, 1, 1, 2, 10)).copy()
    apart = alike.copy()
    apart[..., 1, :] = 0.9
    often, never = np.full((1, 1, 1, 1, 2), 3.0), np.zeros((1, 1, 1, 1, 2))
    assert phases.at_equilibrium(dataset(alike, often)).item()
    assert not phases.at_equilibrium(dataset(alike, never)).item()
    assert not phases.at_equilibrium(dataset(apart, often)).item()

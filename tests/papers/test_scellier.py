"""The experiments of Scellier and Bengio: parts are right, small runs judge as they should, training goes on after a stop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.scellier2017 import (
    architectures,
    comparison,
    contrastive,
    curves,
    fig5a,
    fig5a_printed,
    ours,
    relaxation,
    resting,
    signals,
    stdp,
    stochastic,
    table2,
    theorem,
    training,
)
from equilibria.papers.scellier2017.energy import draw, energy, layered
from equilibria.progress import progress


def judged(module, dataset):
    """What does not hold, and that the figure can be drawn."""
    with plots.style():
        assert module.plot(dataset).axes
    return [claim.says for claim in module.claims(dataset) if claim.verdict == "not held"]


def test_the_theorem_holds_and_a_wrong_gradient_would_not():
    found = theorem.run(theorem.Config(networks=1, neurons=4, nudges=(0.03, 0.01)), progress)
    assert judged(theorem, found) == []
    biased = found.assign(error=found["error"] + 0.05)  # an error that does not fall with the nudge
    assert len(judged(theorem, biased)) == 2


@pytest.mark.slow
def test_the_stochastic_theorem_with_few_and_more_neurons():
    small = stochastic.Config(
        temperatures=(1.0,), chains=100, steps=400, seeds=2, draws=1000, many=(4,), many_steps=400, networks=2
    )
    found = stochastic.run(small)
    # what the paper says of every noise is true for one alone
    assert judged(stochastic, found) == [
        "Langevin dynamics converges to the Boltzmann law e^(-F), for every σ tried: largest distance of the laws"
    ]
    assert found["papers"].values.argmin() == 1  # σ = √2
    assert found["parameters"].values.tolist() == [[22.0, 22.0]]  # 6 pairs, 4 biases, 12 weights to the inputs
    wrong = found.assign(right=1.2 * found["right"], slope=-found["slope"], scaled=found["scaled"] + 0.1)
    assert len(judged(stochastic, wrong)) >= 4


def test_stdp_adds_up_and_its_pairs_of_spikes_follow_the_average():
    found = stdp.run(stdp.Config(neurons=5, steps=(0.25, 0.0625, 0.03125), spikes=20_000, seeds=2), progress)
    exact, drawn = found["exact"].values, found["curve"].values
    assert drawn[0] != pytest.approx(drawn[1])  # two sets of spikes
    # forty thousand stretches leave a few hundredths on average; with the sign of time turned it would be of order one
    assert np.abs(drawn.mean(0) - exact).mean() < 0.05 * exact.max()
    # Twenty thousand spikes are too few for the two claims about drawn ones, which are made of hundreds of thousands.
    assert [says for says in judged(stdp, found) if not says.startswith(("Drawn", "Spikes far"))] == []
    np.testing.assert_allclose(exact, -exact[::-1], atol=1e-4)  # two neurons alike: exchanging them turns the sign
    assert len(judged(stdp, found.assign(curve=-found["curve"]))) >= 3
    assert "(44) and (45) differ" in " ".join(judged(stdp, found.assign(factor=found["factor"] + 0.1)))


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason="0.9984 with eight hidden neurons: the limit was written down first, and stays")
def test_the_centered_gradient_is_the_exact_one_to_a_thousandth():
    found = comparison.run(comparison.Config(hidden=8, epochs=1, probe=20))
    first = found["cosine"].isel(epoch=0, start=0)
    assert float(first.sel(rule="equilibrium propagation, centered")) > 0.999


@pytest.mark.slow
def test_gradients_of_the_relatives():
    """Before it has learned, a network's nudged gradient is the exact one, and ordinary back-propagation's is not."""
    found = comparison.run(comparison.Config(hidden=8, epochs=1, probe=20))
    assert (
        float(found["divergence"].sel(which="two phases").max())
        < 0.01
        < float(found["divergence"].sel(which="CD-1").min())
    )
    first = found["cosine"].isel(epoch=0, start=0)
    centered, one_sided = (
        float(first.sel(rule=f"equilibrium propagation, {how}")) for how in ("centered", "one-sided")
    )
    assert centered > one_sided
    assert float(first.sel(rule="recurrent back-propagation")) > 0.9999
    assert float(first.sel(rule="ordinary back-propagation")) < 0.99
    with plots.style():
        assert comparison.plot(found).axes


def test_errors_are_sent_back_through_neighbouring_layers_only():
    """What carries a change from layer to layer, -d2F/ds2 off its diagonal, is ρ' W ρ'."""
    sizes = (4, 3, 2)
    parameters, _, world = draw(0, sum(sizes), inputs=3, outputs=2)
    parameters = layered(parameters, sizes)
    assert not parameters["weights"][:4, 7:].any()
    assert not parameters["input"][4:].any()
    with jax.enable_x64(True):
        rest = jnp.asarray(np.random.default_rng(1).normal(size=sum(sizes)))
        curvature = np.asarray(jax.hessian(lambda s: energy(parameters, 0.0, s, world))(rest))
    rates = 1 - np.tanh(np.asarray(rest)) ** 2
    upper = np.triu(parameters["weights"], 1)
    off = ~np.eye(sum(sizes), dtype=bool)
    np.testing.assert_allclose(-curvature[off], (rates[:, None] * (upper + upper.T) * rates)[off], atol=1e-10)


def test_signals_arrive_layer_by_layer():
    found = signals.run(signals.Config(sizes=(6, 6, 3), seeds=2, duration=30.0))
    assert judged(signals, found) == []
    assert float(found["early"].isel(layer=0).isel(time=-1).max()) < 0.9999  # late changes are something else


def test_a_negative_contrastive_cost_is_seen_as_one():
    """Two valleys: free it falls into the upper one, clamped it crosses to the lower."""
    parameters = {
        "weights": np.array([[0.0, 3.0], [0.0, 0.0]]), "biases": np.array([-0.3, -0.3]), "input": np.zeros((2, 1)),
    }  # fmt: skip
    world = (np.zeros(1), np.array([-0.7]))
    with jax.enable_x64(True):
        free = contrastive._rest(parameters, 0.0, jnp.array([0.9, 0.9]), world, steps=3000)
        clamped = contrastive._rest(parameters, 0.0, free, world, steps=3000, clamped=True)
        gap = energy(parameters, 0.0, clamped, world) - energy(parameters, 0.0, free, world)
    assert free[1] > 0.5  # the wrong valley
    assert np.tanh(clamped[1]) == pytest.approx(-0.7)
    assert gap < 0


@pytest.mark.slow
def test_weak_weights_have_one_valley():
    """There the contrastive cost is never negative, and a small update by the two-phase rule lowers the squared error."""
    found = contrastive.run(contrastive.Config(strengths=(0.3,), count=30, steps=2400, seeds=2, updates=20))
    squared = found["course"].sel(cost="squared", rule="nudged")
    assert float((squared.isel(update=-1) / squared.isel(update=0)).max()) < 1  # learning learns
    assert float(found["force"].max()) < 1e-6
    assert float(found["contrastive"].min()) >= 0
    np.testing.assert_allclose(
        found["lift"], found["squared"], rtol=0.02
    )  # (49) of a small nudge, over it, is the cost (9)
    assert float(found["by_nudged"].max()) < 0
    np.testing.assert_allclose(found["ratio"], 2, rtol=0.01)
    assert any("is negative in some networks" in says for says in judged(contrastive, found))


def test_schedules_are_those_of_table_2():
    """In the convention of half the squared error, nudge and rates of each reading with one and with two hidden layers."""
    seen = {
        name: [
            (float(plan.recipe.plus.nudge), plan.rates[0], plan.recipe.random_sign)
            for plan in (training.table_schedule(depth, name) for depth in (1, 2))
        ]
        for name in training.READINGS
    }
    assert seen == {
        "equation 9": [(1.0, 0.1, False), (1.0, 0.4, False)],
        "equation 52": [(2.0, 0.2, False), (2.0, 0.8, False)],
        "code of 2016": [(1.0, 0.2, False), (2.0, 0.8, False)],
        "code of 2017": [(1.0, 0.2, True), (2.0, 0.8, True)],
    }
    steps = [
        (int(plan.recipe.base.how.steps), int(plan.recipe.plus.how.steps))
        for plan in (training.table_schedule(depth, "equation 9") for depth in (1, 2, 3))
    ]
    assert steps == [(20, 4), (100, 6), (500, 8)]
    assert [len(row.rates) for row in training.TABLE.values()] == [2, 3, 4]


def test_a_nudge_without_the_half_is_twice_the_nudge_with_it():
    """Equation 52's cost at ξ = 1 in its own convention: the same update as ours with nudge 2 and twice the rate."""
    import equilibria as eq

    network = eq.layered((5, 4, 3), key=0)
    rng = np.random.default_rng(0)
    targets = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 6)]
    data = {"input": jnp.asarray(rng.random((6, 5), np.float32)), "output": jnp.asarray(targets)}

    def whole(state, target):
        return jnp.sum((state - target) ** 2, axis=-1)

    def gradient(nudge, cost):
        rule = eq.equilibrium_propagation(
            nudge, free=eq.GradientFlow(20), nudged=eq.GradientFlow(4), symmetric=False, **cost
        )
        found = rule.step(network, data, carry={}, index=jnp.arange(6), key=jax.random.key(0)).gradient
        return np.asarray(found.couplings[0].weights)

    np.testing.assert_allclose(2 * gradient(2.0, {}), gradient(1.0, {"cost": whole}), rtol=1e-3, atol=1e-6)


def small_curve():
    return curves.Config(depth=1, epochs=2, seeds=1, images="digits", train=200, size=10)


def test_training_goes_on_after_a_stop(tmp_path, monkeypatch):
    """Two epochs at once, or stopped in the second and gone on with from the first one's checkpoint: the same errors."""
    once = curves.run(small_curve(), tmp_path / "once")
    error, calls = curves.error, []

    def stopped(*arguments):
        """One error is measured after each epoch."""
        calls.append(arguments)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return error(*arguments)

    monkeypatch.setattr(curves, "error", stopped)
    with pytest.raises(KeyboardInterrupt):
        curves.run(small_curve(), tmp_path / "twice")
    monkeypatch.setattr(curves, "error", error)
    again = curves.run(small_curve(), tmp_path / "twice")
    for column in ("train", "test", "unconverged"):
        np.testing.assert_array_equal(once[column], again[column])
    assert once["train"].sizes == {"seed": 1, "epoch": 2}


def test_numbers_of_mnist_are_judged_on_mnist_alone():
    """0.004% rounds to the paper's 0.00%, 0.006% does not; one seed of two that fails is told."""

    def curve(train, images="mnist"):
        errors = {"train": train, "validation": [0.024, 0.026], "test": [0.028, 0.029], "unconverged": [0.0, 0.0]}
        data = {name: (("seed", "epoch"), np.reshape(values, (2, 1))) for name, values in errors.items()}
        told = {"depth": 1, "images": images, "reading": "equation 9", "free": "Euler"}
        return xr.Dataset(data, {"epoch": [1]}, told)

    assert judged(fig5a, curve([0.00002, 0.00004])) == []
    assert judged(fig5a, curve([0.00002, 0.00006])) == ["1 hidden: training error in the last epoch, %"]
    kinds = {claim.verdict for claim in fig5a.claims(curve([0.0, 0.0], "digits")) if not claim.ours}
    assert kinds == {"not testable"}


def test_where_block_descent_ends_no_euler_step_moves_a_neuron():
    """It rests where the paper's relaxation would, in that minimum or in another; a start at 0 does not rest."""
    network = eq.layered((8, 6, 6, 6, 10), key=0)
    world = eq.Clamp("input", np.random.default_rng(0).random((20, 8)).astype(np.float32))

    def moved(start):
        return float(np.max(eq.equilibrate(network, eq.GradientFlow(1, tolerance=0.0), start, world=world).residual))

    rest = eq.equilibrate(network, resting.BLOCKS, world=world)
    layers = [name for name in network.names if name != "input"]
    assert moved({name: np.asarray(rest[name]) for name in layers}) <= 2 * resting.STOP
    assert moved({name: np.zeros_like(rest[name]) for name in layers}) > 0.1


@pytest.mark.slow
def test_a_phase_that_stops_early_is_at_rest():
    small = relaxation.Config(
        size=20, updates=20, steps=(0.25, 0.5), durations=(3.0, 6.0, 12.0), depths=(1, 2), learnings=(1,), probe=40,
        longest=500, seeds=1,
    )  # fmt: skip
    found = relaxation.run(small)
    assert found["at_tolerance"].sel(what="differ").max() == 0
    longer = found["distance"].sel(step=0.5).isel(start=0)
    assert (longer.diff("duration") <= 1e-6).all()
    assert (found["phases"].sel(phase="persistent") < found["phases"].sel(phase="afresh")).all()
    failed = " ".join(judged(relaxation, found.assign(descent=found["descent"] + 1, phases=1 / found["phases"])))
    for word in ("The energy only falls", "between 0 and 1", "The ξ-phase is faster", "Persistent particles"):
        assert word in failed


@pytest.mark.slow
def test_changes_of_layers_are_those_of_the_rates():
    """Equal changes are equal; one rate leaves the last layer changing most."""
    small = table2.Config(depths=(1,), size=20, updates=120, records=(60, 120), seeds=1, validate=100)
    found = table2.run(small)
    change = found["change"].isel(depth=0, start=0, record=-1)
    equal = change.sel(way="equal changes").values
    assert equal[1] / equal[0] == pytest.approx(1, abs=0.25)
    assert "1 hidden: the same by `trust_ratio`, which makes them equal" not in judged(table2, found)
    tilted = found.assign(
        change=found["change"] * xr.DataArray([1.0, 3.0, 1.0, 1.0][: found.sizes["coupling"]], dims="coupling")
    )
    assert "1 hidden: the same by `trust_ratio`, which makes them equal" in judged(table2, tilted)


@pytest.fixture(scope="module")
def built():
    return architectures.run(architectures.Config(size=8, train=200, epochs=1, free=20, nudged=10, probe=20, seeds=1))


@pytest.mark.xfail(
    strict=True, reason="0.940: of eight neurons one at its bound counts; the limit was written down first"
)
def test_every_architecture_begins_with_the_gradient(built):
    assert float(built["cosine"].sel(when="first").min()) > 0.95


def test_a_gradient_that_is_none_is_seen(built):
    says = judged(architectures, built.assign(cosine=-built["cosine"]))
    assert sum("cosine" in each or each == "and after it" for each in says) == 2


def test_our_networks_are_told_apart_and_judged_by_their_worst_seed():
    small = ours.Config(train=100, whole_size=8, sizes=(8, 8, 8), whole_epochs=(0, 1, 0), our_epochs=(2, 0, 0), seeds=2)
    found = ours.run(small)
    assert [len(ours.last(found, name, "test")) for name in ("whole 2", "ours 1")] == [1, 2]
    assert [len(ours.last(found, name, "train")) for name in ("whole 2", "ours 1")] == [1, 2]
    assert found["network"].values.tolist() == ["whole 2", "ours 1"]
    assert found["parameters"].values[:, 0].tolist() == [65 * 8 + 9 * 8 + 9 * 10, 65 * 8 + 9 * 10]
    assert judged(ours, found) == []  # nothing is claimed of the bundled digits
    good = found.assign(train=0 * found["train"], test=0 * found["test"]).assign_attrs(images="mnist")
    assert judged(ours, good) == []
    one_bad = good.assign(test=good["test"] + xr.DataArray([0.0, 0.05], dims="start"))
    assert judged(ours, one_bad) == ["ours 1 hidden: test error after the last epoch, %"]  # the other kind has one seed


def test_table_2_as_printed_is_another_reading():
    assert {preset.reading for preset in fig5a_printed.PRESETS.values()} == {"equation 9"}
    assert fig5a_printed.PRESETS["paper"].seeds == 5

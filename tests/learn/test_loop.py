"""The training loop: it learns, records, stops, and survives being killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import equilibria as eq
import machines
from compilations import compilations
from equilibria import files
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.exact import log_partition_function
from equilibria.learn.loop import _stops

DATA = np.random.default_rng(0).choice([0.0, 1.0], (40, 5), p=[0.2, 0.8]) * np.array([1, 1, 0, 1, 1])
RECIPES = {
    "cd": eq.cd(2),
    "pcd": eq.pcd(2, chains=30),
    "rdm": eq.rdm(5),
    "exact": eq.exact(),
    "plain": eq.pcd(2, chains=30, centered_gradient=False),
    "reweighted": eq.reweighted(2, chains=30),
    "tempered": eq.tempered(1, chains=30, rungs=3),
    "mean field": eq.mean_field(),
    "tap": eq.tap(2),
    "tap3": eq.tap(3),
}


def log_likelihood(network, data):
    free = network.free_energy({"visible": jnp.asarray(data)}, ("hidden",))
    return float(-jnp.mean(free) - log_partition_function(conditioned(network, (), 1.0)))


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_likelihood_recipe_learns(recipe):
    """Three copies of one bit and two of another, a tenth of them flipped: fields alone cannot do better than 5 ln 2."""
    random = np.random.default_rng(0)
    copies = np.repeat(random.integers(0, 2, (200, 2)), [3, 2], axis=1)
    rows = np.abs(copies - (random.random((200, 5)) < 0.1)).astype(np.float32)
    network = eq.rbm(5, 3, key=0)
    # Naive mean field is right while couplings are weak; once they break the symmetry it goes on strengthening them.
    epochs = 20 if recipe == "mean field" else 60
    run = eq.train(network, rows, RECIPES[recipe], epochs=epochs, batch_size=20, learning_rate=0.2, key=1)
    assert log_likelihood(run.network, rows) > -5 * np.log(2) + 0.2


@pytest.mark.parametrize(
    "recipe",
    [
        eq.equilibrium_propagation(0.5),
        eq.equilibrium_propagation(0.5, symmetric=False, random_sign=True, particles=True),
        eq.contrastive_hebbian(),
    ],
    ids=["centered", "random sign, particles", "contrastive Hebbian"],
)
def test_every_supervised_recipe_learns(recipe):
    """Which of three groups of inputs is brightest."""
    inputs = np.random.default_rng(1).random((300, 6)).astype(np.float32)
    labels = np.eye(3)[inputs.reshape(300, 3, 2).sum(2).argmax(1)]
    network = eq.layered((6, 20, 3), gain=0.6, key=2)
    run = eq.train(network, (inputs, labels), recipe, epochs=40, batch_size=20, learning_rate=0.1, key=3)
    assert run.history["error"][0] > 0.4
    assert run.history["error"][-1] < 0.12


def test_a_dense_network_trains_with_symmetric_weights():
    spins = np.sign(np.random.default_rng(3).normal(size=(50, 6)) + 0.5)
    run = eq.train(eq.dense(6, key=0), spins, eq.pcd(3), epochs=5, batch_size=10, learning_rate=0.1, key=1)
    weights = run.network.couplings[0].weights
    np.testing.assert_allclose(weights, weights.T, atol=1e-7)
    assert not np.diagonal(weights).any()


def test_history_is_labelled_and_metrics_are_recorded_where_asked():
    called = []
    run = eq.train(
        eq.rbm(5, 3, key=0),
        DATA,
        eq.cd(1),
        epochs=3,
        batch_size=10,
        record=[1, 5, 12],
        key=1,
        metrics=lambda network: {
            "weights": network.couplings[0].weights,
            "norm": jnp.linalg.norm(network.couplings[0].weights),
        },
        callbacks=[lambda step, network, row: called.append((step, network.names, float(row["norm"])))],
    )
    assert run.history["step"].values.tolist() == [1, 5, 12]
    assert run.history["epoch"].values.tolist() == [0.25, 1.25, 3.0]
    assert run.history["weights"].shape == (3, 5, 3)
    assert run.history["norm"].dims == ("step",)
    np.testing.assert_array_equal(run.history["weights"][-1], run.network.couplings[0].weights)
    names, norms = ("visible", "hidden"), run.history["norm"].values
    assert called == [(step, names, norm) for step, norm in zip((1, 5, 12), norms, strict=True)]


def test_records_are_log_spaced_then_each_epoch():
    run = eq.train(eq.rbm(5, 3, key=0), DATA, eq.cd(1), epochs=2, batch_size=4, key=1)
    assert run.history["step"].values.tolist() == [1, 2, 4, 8, 10, 20]


@pytest.mark.parametrize(
    "made",
    [
        lambda: optax.adam(0.05),
        lambda: optax.chain(optax.clip(1.0), optax.sgd(optax.linear_schedule(0.2, 0.0, 50), momentum=0.9)),
    ],
    ids=["adam", "chain"],
)
def test_any_optimiser_and_schedule(made):
    """Another one that is equal shares every program, the one that makes its first state as well."""

    def trained():
        return eq.train(eq.rbm(5, 3, key=0), DATA, eq.pcd(1), epochs=20, batch_size=20, optimiser=made(), key=1).network

    assert log_likelihood(trained(), DATA) > log_likelihood(eq.rbm(5, 3, key=0), DATA) + 0.5
    with compilations() as again:
        trained()
    assert again == []


def test_a_run_pauses_at_records_and_saves_and_at_its_end():
    assert list(_stops([8, 2, 4, 40], 3, 2, 10)) == [
        (3, False),
        (4, True),
        (6, False),
        (8, True),
        (9, False),
        (10, False),
    ]
    assert list(_stops([10], 10, 0, 10)) == [(10, True)]


def test_learning_rate_and_weights_do_not_compile_again(monkeypatch):
    traces = []
    original = eq.Recipe.step
    monkeypatch.setattr(eq.Recipe, "step", lambda *a, **k: (traces.append(1), original(*a, **k))[1])
    for seed, rate, steps in ((0, 0.1, 2), (1, 0.3, 5)):
        eq.train(eq.rbm(5, 4, key=seed), DATA, eq.cd(steps), epochs=2, batch_size=20, learning_rate=rate, key=seed)
        # Each call looks once at the report's shape; only the first compiles the step.
        assert len(traces) == 2 + seed


def test_divergence_is_said_and_the_last_checkpoint_kept(tmp_path):
    network = eq.rbm(5, 3, visible=eq.Spin(), hidden=eq.Gaussian(), key=0)
    spins = 2 * DATA - 1
    with pytest.raises(eq.Diverged, match=r"diverged between steps \d+ and \d+.*smaller learning rate"):
        eq.train(
            network, spins, eq.pcd(1), epochs=400, batch_size=20, learning_rate=1e3, checkpoint=tmp_path,
            checkpoint_every=1, key=1,
        )  # fmt: skip
    kept = eq.load_network(tmp_path)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))


def test_a_machine_that_loses_its_law_is_stopped(tmp_path):
    """Gaussian units on both sides: data of variance 9 ask for a coupling that plain ascent at a large rate overshoots."""
    network = eq.rbm(3, 2, visible=eq.Gaussian(), hidden=eq.Gaussian(), scale=0.1, key=0)
    data = 3 * np.random.default_rng(0).normal(size=(40, 1)) * np.ones(3)
    with pytest.raises(eq.Diverged, match=r"not normalisable: .* no minimum.*smaller learning rate"):
        eq.train(network, data, eq.pcd(1), epochs=200, batch_size=20, learning_rate=0.02, checkpoint=tmp_path, key=1)
    assert np.isfinite(eq.log_partition(eq.load_network(tmp_path)).value)


def same(first, second):
    """Bit for bit."""
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True))


@pytest.mark.parametrize(
    "recipe",
    [eq.pcd(1), eq.tempered(1, rungs=3), eq.equilibrium_propagation(0.5, particles=True)],
    ids=["pcd", "tempered", "particles"],
)
def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path, recipe):
    if recipe.base is None:
        network, data = eq.rbm(5, 3, key=0), DATA
    else:
        network, data = eq.layered((5, 4, 2), key=0), (DATA, np.eye(2)[np.arange(40) % 2])

    def go(epochs, folder, **options):
        options = {"batch_size": 10, "optimiser": optax.adam(0.01), "checkpoint": folder, "key": 1} | options
        return eq.train(network, data, recipe, epochs=epochs, **options)

    whole = go(6, tmp_path / "whole")
    go(2, tmp_path / "parts")
    with pytest.raises(ValueError, match="holds a run; allowed: another folder, or resume=True"):
        go(6, tmp_path / "parts")
    resumed = go(6, tmp_path / "parts", resume=True)
    assert same(whole.network, resumed.network)
    assert same(whole.carry, resumed.carry)
    assert same(eq.load_network(tmp_path / "parts"), whole.network)
    assert resumed.history["step"].values.tolist() == whole.history["step"].values.tolist()
    np.testing.assert_array_equal(resumed.history["contrast"], whole.history["contrast"])


def test_resuming_something_else_is_refused(tmp_path):
    options = {"epochs": 1, "batch_size": 10, "checkpoint": tmp_path, "resume": True}
    network = eq.rbm(5, 3, key=0)
    eq.train(network, DATA, eq.cd(1), key=1, **options)
    for changes, reason in (
        ({"key": 2}, "another key"),
        ({"key": 1, "batch_size": 20}, "another batch_size"),
        ({"key": 1, "rule": eq.pcd(1)}, "another rule"),
        ({"key": 1, "data": 1 - DATA}, "another data"),
        ({"key": 1, "rule": eq.cd(2)}, "another rule"),
        ({"key": 1, "model": eq.rbm(5, 4, key=0)}, "another model"),
        ({"key": 1, "model": eq.rbm(5, 3, hidden=eq.Spin(), key=0)}, "another model"),
        ({"key": 1, "learning_rate": 0.02}, "another learning_rate: 'auto', here '0.02'"),
        ({"key": 1, "optimiser": optax.adam(1e-3)}, "another optimiser"),
        ({"key": 1, "rule": eq.Augmented(eq.cd(1), eq.InputDropout(0.1, "visible"))}, "another rule"),
    ):
        arguments = {"model": network, "data": DATA, "rule": eq.cd(1), **options, **changes}
        with pytest.raises(ValueError, match=reason):
            eq.train(**arguments)


SCRIPT = """
import sys, numpy as np, equilibria as eq
data = np.random.default_rng(0).choice([0.0, 1.0], (60, 8))
run = eq.train(eq.rbm(8, 6, key=0), data, eq.pcd(1), epochs=400, batch_size=10, learning_rate=0.05, checkpoint=sys.argv[1],
               checkpoint_every=7, resume=True, key=1)
np.save(sys.argv[1] + "/final.npy", run.network.couplings[0].weights)
"""


def test_a_run_killed_at_any_moment_resumes_bit_for_bit(tmp_path):
    """A real process, really killed with SIGKILL several times, ends with the weights of one that ran through."""
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def start(folder):
        return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], env=environment)

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(whole).wait(timeout=240) == 0
    kills, reached, patience = 0, 0, np.random.default_rng(0)
    for _ in range(3):
        process = start(killed)
        while process.poll() is None and steps_done(killed) <= reached:
            time.sleep(0.002)
        time.sleep(patience.uniform(0, 0.05))  # anywhere in the loop, writes included
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        reached = steps_done(killed)
    assert kills >= 2
    assert reached < 2400
    assert start(killed).wait(timeout=240) == 0
    np.testing.assert_array_equal(np.load(whole / "final.npy"), np.load(killed / "final.npy"))


def steps_done(folder: Path) -> int:
    newest = files.latest(folder)
    return -1 if newest is None else int(newest.stem.split("-")[1])


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path):
    network, options = eq.rbm(5, 3, key=0), {"batch_size": 10, "key": 1}
    whole = eq.train(network, DATA, eq.cd(1), epochs=4, checkpoint=tmp_path / "whole", **options)
    eq.train(network, DATA, eq.cd(1), epochs=3, checkpoint=tmp_path / "hurt", **options)
    newest = files.latest(tmp_path / "hurt")
    newest.write_bytes(newest.read_bytes()[:-20])
    with pytest.warns(UserWarning, match="checkpoint"):
        resumed = eq.train(network, DATA, eq.cd(1), epochs=4, checkpoint=tmp_path / "hurt", resume=True, **options)
    assert same(whole.network, resumed.network)


def test_networks_of_every_constructor_can_be_stored(tmp_path):
    for name, network in machines.DISCRETE.items():
        eq.save_network(tmp_path / name, network)
        loaded = eq.load_network(tmp_path / name)
        assert jax.tree.structure(loaded) == jax.tree.structure(network)
        assert same(loaded, network)


def test_eight_bit_data_stay_eight_bit():
    network = eq.rbm(5, 3, key=0)
    as_bytes = eq.train(network, DATA.astype(np.uint8), eq.cd(1), epochs=1, batch_size=10, key=1)
    as_floats = eq.train(network, DATA, eq.cd(1), epochs=1, batch_size=10, key=1)
    assert same(as_bytes.network, as_floats.network)


def test_exchanges_are_in_the_history():
    run = eq.train(eq.rbm(5, 3, key=0), DATA, eq.tempered(2, rungs=4, hottest=5.0), epochs=2, batch_size=10, key=1)
    assert run.history["exchange_rates"].shape == (run.history.sizes["step"], 3)
    assert (run.history["exchange_rates"] > 0).all()
    np.testing.assert_allclose(
        run.history["temperatures"][:, [0, 3]], np.tile([1.0, 5.0], (run.history.sizes["step"], 1))
    )


@pytest.mark.parametrize(
    ("visible", "hidden"),
    [
        (eq.Spin(), eq.Gaussian()),
        (eq.Gaussian(), eq.Binary()),
        (eq.Gaussian(), eq.Gaussian(0.5)),
        (eq.Clipped(), eq.Spin()),
    ],
    ids=["spin-gaussian", "gaussian-binary", "gaussian-gaussian", "clipped-spin"],
)
def test_any_units_on_either_side(visible, hidden):
    """Correlated data of every kind become more probable."""
    rng = np.random.default_rng(4)
    common = rng.normal(size=(200, 1)) + 0.5 * rng.normal(size=(200, 4))
    data = {"Spin": np.sign(common), "Gaussian": common, "Clipped": 1 / (1 + np.exp(-3 * common))}[
        type(visible).__name__
    ]
    network = eq.independent_site_biases(eq.rbm(4, 2, visible=visible, hidden=hidden, scale=0.1, key=0), data)
    run = eq.train(network, data, eq.pcd(5), epochs=60, batch_size=50, learning_rate=0.05, key=1)
    before, after = (eq.log_likelihood(net, data).value for net in (network, run.network))
    assert after > before + 0.1


def test_a_deep_boltzmann_machine_trains():
    """Three layers: the data's most frequent words become the most probable ones, by enumeration."""
    words = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0]], float)
    data = words[np.random.default_rng(0).integers(0, 3, 120)]
    network = eq.layered((6, 5, 3), units=eq.Binary(), gain=0.5, key=0)
    run = eq.train(network, {"input": data}, eq.pcd(5, chains=60), epochs=150, batch_size=40, learning_rate=0.1, key=1)
    before, after = (eq.log_likelihood(net, {"input": data}).value for net in (network, run.network))
    assert before < -4.0  # 6 ln 2 = 4.16 without knowledge
    assert after > -1.9  # ln 3 = 1.10 at best
    draws = eq.sample(run.network, eq.Sweeps(50), chains=500, key=2)["input"]
    known = (np.asarray(draws)[:, None] == words).all(-1).any(-1)
    chance = sum(np.exp(eq.log_likelihood(run.network, {"input": word[None]}).value) for word in words)
    assert chance > 0.5
    assert abs(known.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / 500)


@pytest.mark.parametrize("unit", [eq.OneHot(), eq.Gaussian()], ids=["one-hot", "Gaussian"])
def test_a_label_layer_classifies(unit):
    """Digits 0, 1 and 2 of scikit-learn, with class units beside the pixels: p(label | pixels) is exact."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(n_class=3, return_X_y=True)
    pixels = (pixels > 7).astype(np.float32)
    classes = np.eye(3)[labels]
    network = eq.layered((64, 30, 3), units=(eq.Binary(), eq.Binary(), unit), gain=0.2, key=0)
    network = eq.independent_site_biases(network, {"input": pixels, "output": classes})
    seen = slice(0, 400)
    run = eq.train(
        network, (pixels[seen], classes[seen]), eq.pcd(2), epochs=40, batch_size=40, learning_rate=0.05, key=1
    )
    guess = eq.label_probabilities(run.network, {"input": pixels[400:]})
    np.testing.assert_allclose(guess.sum(1), 1, atol=1e-5)
    assert (guess.argmax(1) == labels[400:]).mean() > 0.9  # a third by chance

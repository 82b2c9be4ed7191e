"""Data on a disk and batches in turn: the run is that of the same data in memory."""

import numpy as np
import pytest

import equilibria as eq
from equilibria.learn import stream as streams

DATA = np.random.default_rng(0).choice([0.0, 1.0], (40, 5), p=[0.2, 0.8]).astype(np.float32)
MACHINE = eq.rbm(weights=np.full((5, 3), 0.1), visible_bias=np.full(5, 0.2))
OPTIONS = {"learning_rate": 0.1, "key": 1, "show_progress": False}
RECIPE = eq.pcd(2, chains=30, opening="network")


def weights(run):
    return np.asarray(run.network.couplings[0].weights)


@pytest.fixture
def short(monkeypatch):
    """Windows of two batches, so that there are several in an epoch."""
    monkeypatch.setattr(streams, "_BYTES", 2 * 10 * 5 * 4)


@pytest.fixture
def on_disk(tmp_path):
    np.save(tmp_path / "data.npy", DATA)
    return np.load(tmp_path / "data.npy", mmap_mode="r")


def test_an_array_on_a_disk_is_learned_as_in_memory(on_disk, short, tmp_path):
    options = {**OPTIONS, "batch_size": 10, "epochs": 3}
    whole = eq.train(MACHINE, DATA, RECIPE, **options)
    there = eq.train(MACHINE, on_disk, RECIPE, **options)
    np.testing.assert_array_equal(weights(there), weights(whole))
    assert there.history["epoch"].values.tolist() == whole.history["epoch"].values.tolist()
    folder = tmp_path / "run"
    eq.train(MACHINE, on_disk, RECIPE, checkpoint=folder, checkpoint_every=5, **{**options, "epochs": 2})
    more = eq.train(MACHINE, on_disk, RECIPE, checkpoint=folder, resume=True, **options)
    np.testing.assert_array_equal(weights(more), weights(whole))
    with pytest.raises(ValueError, match="another data"):
        eq.train(MACHINE, DATA, RECIPE, checkpoint=folder, resume=True, **options)


class Loader:
    """Batches as loaders of other libraries give them."""

    def __init__(self, size, rows=DATA):
        self.size, self.rows = size, rows

    def __len__(self):
        return -(-len(self.rows) // self.size)

    def __iter__(self):
        return iter([[self.rows[i : i + self.size]] for i in range(0, len(self.rows), self.size)])


def test_batches_come_in_turn(short):
    """One batch of all rows is what a loop in memory takes unshuffled; four are what four steps on them are."""
    whole = eq.train(MACHINE, DATA, RECIPE, batch_size=40, steps=5, **OPTIONS)
    turn = eq.train(MACHINE, Loader(40), RECIPE, steps=5, **OPTIONS)
    np.testing.assert_array_equal(weights(turn), weights(whole))
    epochs = eq.train(MACHINE, Loader(10), RECIPE, epochs=2, **OPTIONS)
    steps = eq.train(MACHINE, (row for _ in range(2) for row in np.split(DATA, 4)), RECIPE, steps=8, **OPTIONS)
    np.testing.assert_array_equal(weights(epochs), weights(steps))
    assert epochs.history["step"].values[-1] == 8
    with pytest.raises(ValueError, match="data: got 8 batches"):
        eq.train(MACHINE, (row for _ in range(2) for row in np.split(DATA, 4)), RECIPE, steps=9, **OPTIONS)
    pairs = ((DATA[:10], np.eye(2, dtype=np.float32)[np.arange(10) % 2]) for _ in range(4))
    network = eq.layered((5, 3, 2), key=0)
    assert eq.train(network, pairs, eq.equilibrium_propagation(), steps=4, **OPTIONS).history.sizes["step"] > 0


def test_what_does_not_fill_a_batch_sits_out(short):
    uneven = eq.train(MACHINE, Loader(10, DATA[:35]), RECIPE, steps=6, **OPTIONS)
    even = eq.train(MACHINE, Loader(10, DATA[:30]), RECIPE, steps=6, **OPTIONS)
    np.testing.assert_array_equal(weights(uneven), weights(even))


def test_weights_are_shares_of_an_epoch():
    given = np.array([0.0, 2.0, 0.5, 1.5])
    seen = []

    class Seen(eq.Rule):
        def begin(self, parameters, data, batch_size, key):
            return None

        def step(self, parameters, batch, *, carry, index, key):
            return eq.Step(0 * parameters, carry, {"index": batch[:, 0]})

    for key in range(40):
        run = eq.train(np.zeros(1), np.arange(4.0)[:, None], Seen(), steps=1, batch_size=4, weights=given, key=key)
        seen.append(np.bincount(run.history["index"].values.astype(int).ravel(), minlength=4))
    counts = np.array(seen)
    assert (counts[:, :2] == [0, 2]).all()
    assert (counts.sum(1) == 4).all()
    # Each of two outcomes with one half: 20 of 40, within four standard deviations.
    assert counts[:, 2].mean() == pytest.approx(0.5, abs=0.32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eq.train(MACHINE, iter([DATA]), RECIPE, steps=3, **OPTIONS), r"data: got 1 batches; allowed: as many"),
        (lambda: eq.train(MACHINE, iter([DATA]), RECIPE, epochs=3, **OPTIONS), r"epochs: got 3; allowed: a number of"),
        (
            lambda: eq.train(MACHINE, iter([DATA, DATA[:3]] * 99), RECIPE, steps=3, **OPTIONS),
            r"data: got a batch with \[3\] examples; allowed: batches of 40",
        ),
        (lambda: eq.train(MACHINE, DATA, RECIPE, steps=3, weights=np.ones(3), **OPTIONS), r"weights: got shape \(3,\)"),
        (lambda: eq.train(MACHINE, DATA, RECIPE, steps=3, weights=-np.ones(40), **OPTIONS), r"weights: got .*>= 0"),
        (lambda: eq.train(MACHINE, iter([DATA] * 9), RECIPE, steps=3, runs=2, **OPTIONS), r"data: got a stream with"),
        (
            lambda: eq.train(
                eq.layered((5, 3, 2), key=0),
                iter([(DATA, DATA[:, :2])] * 9),
                eq.equilibrium_propagation(particles=True),
                steps=3,
                **OPTIONS,
            ),
            r"data: got a stream; allowed: data in memory for a rule that keeps something for each example",
        ),
    ],
)
def test_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()

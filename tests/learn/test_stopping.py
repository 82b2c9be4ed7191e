"""Ways to end a run: its history is whole, its checkpoint is written, and it goes on as if it had not been stopped."""

import os
import signal

import jax
import numpy as np
import optax
import pytest

import equilibria as eq
from equilibria.learn import advance as loops

DATA = np.random.default_rng(0).choice([0.0, 1.0], (40, 5))
OPTIONS = {"batch_size": 10, "learning_rate": 0.05, "key": 1, "show_progress": False}
MACHINE = eq.rbm(5, 3, key=0)


def weights(run):
    return np.asarray(run.network.couplings[0].weights)


def test_a_callback_ends_a_run_with_its_history_whole(tmp_path):
    def enough(step, network, row):
        assert float(row["twice"]) == 2 * step
        if step == 12:
            raise eq.StopRun("twelve is enough")

    count = iter(range(4, 100, 4))
    options = {
        **OPTIONS,
        "epochs": 10,
        "record": range(4, 41, 4),
        "metrics": lambda network: {"twice": 2 * next(count)},
    }
    run = eq.train(MACHINE, DATA, eq.pcd(1), callbacks=[enough], checkpoint=tmp_path, **options)
    assert run.stopped == "twelve is enough"
    assert run.history["step"].values.tolist() == [4, 8, 12]
    resumed = eq.train(MACHINE, DATA, eq.pcd(1), checkpoint=tmp_path, resume=True, **{**options, "metrics": None})
    whole = eq.train(MACHINE, DATA, eq.pcd(1), **{**options, "metrics": None})
    assert resumed.stopped is None
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    np.testing.assert_array_equal(resumed.history["contrast"], whole.history["contrast"])
    # Rows from before the stop have the metric that later rows lack.
    assert np.isfinite(resumed.history["twice"]).sum() == 3


def test_patience_keeps_the_best_parameters():
    scores = {4: 0.0, 8: 2.0, 12: 1.0, 16: 1.9, 20: 2.0, 24: 5.0}
    steps = iter(scores)
    stop = eq.Patience("score", records=3)
    metrics = lambda network: {"score": scores[next(steps)]}  # noqa: E731
    run = eq.train(MACHINE, DATA, eq.cd(1), epochs=6, record=list(scores), metrics=metrics, callbacks=[stop], **OPTIONS)
    assert (stop.best_step, stop.best_value) == (8, 2.0)
    assert run.stopped == "score has not improved for 3 records"
    assert run.history["step"].values.tolist() == [4, 8, 12, 16, 20]
    best = eq.train(MACHINE, DATA, eq.cd(1), steps=8, **OPTIONS)
    np.testing.assert_array_equal(np.asarray(stop.best.couplings[0].weights), weights(best))


def test_less_may_be_better():
    stop = eq.Patience("contrast", records=1, largest=False, least=100.0)
    run = eq.train(MACHINE, DATA, eq.cd(1), epochs=6, callbacks=[stop], **OPTIONS)
    assert run.history.sizes["step"] == 2
    with pytest.raises(ValueError, match="metric: got 'nonsense'"):
        eq.train(MACHINE, DATA, eq.cd(1), epochs=1, callbacks=[eq.Patience("nonsense")], **OPTIONS)


def test_a_time_limit_ends_the_chunk_under_way(tmp_path):
    run = eq.train(MACHINE, DATA, eq.cd(1), epochs=10**5, callbacks=[eq.TimeLimit(1.0)], checkpoint=tmp_path, **OPTIONS)
    assert run.stopped == "the time limit of 1 s is reached"
    step = int(run.history["step"][-1])
    again = eq.train(MACHINE, DATA, eq.cd(1), steps=step, checkpoint=tmp_path, resume=True, **OPTIONS)
    np.testing.assert_array_equal(weights(again), weights(run))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_a_run_and_handlers_come_back(tmp_path, number):
    before = signal.getsignal(number)

    def ask(step, network, row):
        if step == 4:
            os.kill(os.getpid(), number)

    run = eq.train(MACHINE, DATA, eq.pcd(1), epochs=50, callbacks=[ask, eq.OnSignal()], checkpoint=tmp_path, **OPTIONS)
    assert number.name in run.stopped
    assert signal.getsignal(number) is before
    resumed = eq.train(MACHINE, DATA, eq.pcd(1), epochs=3, checkpoint=tmp_path, resume=True, **OPTIONS)
    np.testing.assert_array_equal(weights(resumed), weights(eq.train(MACHINE, DATA, eq.pcd(1), epochs=3, **OPTIONS)))


def test_binary_synapses_stop_and_go_on_too(tmp_path):
    data = np.where(DATA > 0, 1, -1)

    def enough(step, synapses, row):
        if step == 3:
            raise eq.StopRun("enough")

    options = {"steps": 6, "key": 0, "show_progress": False, "metrics": lambda s: {"size": abs(s.natural).max()}}
    stopped = eq.learn_synapses(data, 2, callbacks=[enough], checkpoint=tmp_path, **options)
    assert stopped.stopped == "enough"
    assert stopped.history["step"].values.tolist() == [0, 1, 2, 3]
    resumed = eq.learn_synapses(data, 2, checkpoint=tmp_path, resume=True, **options)
    whole = eq.learn_synapses(data, 2, **options)
    for name in ("bound", "divergence", "size"):
        np.testing.assert_array_equal(resumed.history[name], whole.history[name])
    with pytest.raises(ValueError, match="another rule"):
        eq.learn_synapses(data, 2, prior=0.1, checkpoint=tmp_path, resume=True, **options)
    with pytest.raises(ValueError, match="another model"):
        eq.learn_synapses(data, 2, temperature=2.0, checkpoint=tmp_path, resume=True, **options)
    with pytest.raises(ValueError, match=r"another learning_rate: '0\.03', here '0\.02'"):
        eq.learn_synapses(data, 2, learning_rate=0.02, checkpoint=tmp_path, resume=True, **options)


def test_patience_keeps_the_synapses_that_were_measured():
    def size(synapses):
        return float(abs(np.asarray(synapses.natural)).mean())

    stop = eq.Patience(
        "size", 9
    )  # nothing is to be learned from noise, and the parameters shrink: the first are the best
    options = {"metrics": lambda synapses: {"size": size(synapses)}, "callbacks": [stop], "show_progress": False}
    eq.learn_synapses(np.where(DATA > 0, 1, -1), 2, steps=4, key=0, **options)
    assert stop.best_step == 0
    assert size(stop.best) == pytest.approx(stop.best_value, rel=1e-5)


@pytest.mark.parametrize("rule", [eq.pcd(2), eq.cd(1)], ids=["pcd", "cd"])
def test_runs_side_by_side_are_the_runs_by_themselves(rule):
    options = {**OPTIONS, "epochs": 2}
    together = eq.train(MACHINE, DATA, rule, runs=3, **options)
    assert together.history["contrast"].dims == ("step", "run")
    for number, key in enumerate(jax.random.split(eq.key(1), 3)):
        alone = eq.train(MACHINE, DATA, rule, **{**options, "key": key})
        # Mapped products may add up in another order; draws that fall within a rounding of their threshold do not occur here.
        np.testing.assert_allclose(weights(together)[number], weights(alone), atol=1e-6)
        np.testing.assert_allclose(together.history["contrast"][:, number], alone.history["contrast"], atol=1e-5)


def test_the_same_optimiser_by_value_is_compiled_once(monkeypatch):
    traces = []
    original = loops.Advance.run

    def counted(self, *arguments):
        traces.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(loops.Advance, "run", counted)
    options = {"epochs": 1, "batch_size": 20, "key": 1, "show_progress": False}
    for _ in range(3):
        eq.train(MACHINE, DATA, eq.cd(3), optimiser=optax.adamw(1e-3, weight_decay=0.01), **options)
    assert len(traces) == 1
    eq.train(MACHINE, DATA, eq.cd(3), optimiser=optax.adamw(1e-3, weight_decay=0.02), **options)
    assert len(traces) == 2


def test_epochs_or_steps():
    for wrong in ({}, {"epochs": 1, "steps": 4}):
        with pytest.raises(ValueError, match="one of the two"):
            eq.train(MACHINE, DATA, eq.cd(1), **OPTIONS, **wrong)
    with pytest.raises(ValueError, match="which is not called"):
        eq.train(MACHINE, DATA, eq.pcd, epochs=1, **OPTIONS)

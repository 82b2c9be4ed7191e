"""What a newcomer tries first, and gets wrong: a sentence, or what it looks like."""

import logging
import pydoc

import numpy as np
import pytest

import equilibria as eq

DATA = np.eye(4)


def machine():
    return eq.rbm(4, 2, key=0)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (eq.pcd, r"rule: got <function pcd .*>, which is not called; allowed: eq\.pcd\(steps=10\), called"),
        ("pcd", r"rule: got 'pcd'; allowed: eq\.pcd\(steps=10\), called"),
        ("adam", r"rule: got 'adam'; allowed: a rule such as eq\.pcd\(steps=10\)"),
        (3, r"rule: got 3; allowed: a rule such as"),
    ],
)
def test_a_recipe_by_name_or_not_called_is_answered_by_how_it_is_written(rule, message):
    with pytest.raises(ValueError, match=message):
        eq.train(machine(), DATA, rule, epochs=1, key=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eq.rbm(4, 2, visible="binary", key=0), r"the unit of layer 'visible': got 'binary'; allowed: a unit, such as"),
        (lambda: eq.rbm(4, 2, hidden=eq.ReLU, key=0), r"the unit of layer 'hidden': got <class .*ReLU'>; allowed: a unit"),
        (lambda: eq.layered((4, 2), units="clipped", key=0), r"units: got 'clipped'; allowed: a unit, such as eq\.Clipped\(\)"),
        (lambda: eq.dense(4, units=eq.Spin, key=0), r"units: got <class .*Spin'>; allowed: a unit"),
        (lambda: eq.layered(784, key=0), r"sizes: got 784; allowed: the sizes of all layers in a row"),
        (lambda: eq.train(DATA, machine(), eq.cd(1), epochs=1, key=0), r"data: got a network; allowed: examples, after"),
        (lambda: eq.train(machine(), DATA, eq.cd(1), epochs=1, optimiser=0.1, key=0), r"optimiser: got 0\.1; allowed: an"),
        (lambda: eq.train(machine(), DATA, eq.cd(1), epochs=1, metrics=3, key=0), r"metrics: got 3; allowed: a function"),
        (lambda: eq.train(machine(), DATA, eq.cd(1), epochs=1, callbacks=3, key=0), r"callbacks: got 3; allowed: a list of"),
        (lambda: eq.equilibrate(DATA, eq.Sweeps(1), key=0), r"network: got array.*; allowed: a network, such as"),
        (lambda: eq.sample(DATA, eq.Sweeps(1), chains=2, key=0), r"network: got array.*; allowed: a network, such as"),
        (lambda: eq.spectrum(DATA), r"network: got array.*; allowed: a network, such as"),
        (lambda: eq.overlap(machine(), DATA[0]), r"state: got a network; allowed: a state of one, as eq\.equilibrate"),
        (lambda: eq.save_network(machine(), "net.eqx"), r"path: got a network; allowed: a file or folder"),
        (lambda: eq.save_network("net.eqx", DATA), r"network: got array.*; allowed: a network, such as"),
    ],
)  # fmt: skip
def test_arguments_that_were_swapped_or_are_of_another_kind_are_named(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data", [["a", "b"], [["a", "b", "c", "d"]], [[None, 1, 0, 1]], np.array([["1", "0", "1", "0"]])]
)
def test_words_are_no_data(data):
    with pytest.raises(ValueError, match=r"data\['visible'\]: got (values of type|shape)"):
        eq.train(machine(), data, eq.cd(1), epochs=1, key=0)


def test_words_and_rows_of_several_lengths_name_their_argument():
    memory = eq.hopfield(np.ones((1, 4)))
    for call, argument in {
        lambda rows: eq.train(machine(), rows, eq.cd(1), epochs=1, key=0): r"data\['visible'\]",
        lambda rows: eq.log_likelihood(machine(), rows): r"data\['visible'\]",
        lambda rows: eq.equilibrate(memory, eq.Sweeps(1), rows, key=0): r"start\['neurons'\]",
        lambda rows: eq.overlap(DATA, rows): "pattern",
    }.items():
        for given, rows in {
            "values of type <U1": [list("abcd")],
            "rows of several lengths": [[1, 0, 1, 0], [1]],
        }.items():
            with pytest.raises(ValueError, match=f"{argument}: got {given}"):
                call(rows)


def test_a_name_that_does_not_exist_is_answered_by_those_like_it():
    for room, name, meant in (
        (eq, "RBM", "eq.rbm or eq.estimators.RBM"),
        (eq, "Sweep", "eq.Sweeps"),
        (eq, "EquilibriumClasifier", "eq.estimators.EquilibriumClassifier"),
        (eq.theory, "hopfeld", "eq.theory.hopfield"),
        (eq.data, "mnst", "eq.data.mnist"),
    ):
        with pytest.raises(AttributeError, match=f"has no '{name}'; did you mean .*{meant}"):
            getattr(room, name)
    with pytest.raises(AttributeError, match=r"equilibria has no 'xyzzy'$"):
        eq.xyzzy  # noqa: B018
    assert not hasattr(eq, "_ipython_display_")


def test_arguments_in_another_order_are_one_line():
    for call, message in {
        lambda: eq.log_likelihood(
            DATA, machine()
        ): r"network: got array\(.* \.\.\.; allowed: a network, such as eq\.rbm",
        lambda: eq.log_partition("rbm"): "network: got 'rbm'; allowed: a network",
        lambda: eq.pseudo_likelihood(DATA, machine()): "network: got array",
        lambda: eq.diagnose(DATA, key=0): "network: got array",
        lambda: eq.train(machine(), eq.pcd(1), DATA, epochs=1, key=0): r"rule: got array\(.* \.\.\.; allowed: a rule",
        lambda: eq.equilibrate(eq.Sweeps(3), machine(), key=0): r"how: got Network\( \.\.\.; allowed: an equilibrator",
    }.items():
        with pytest.raises(ValueError, match=message) as told:
            call()
        assert "\n" not in str(told.value)


def test_a_file_is_no_data_but_can_be_read():
    with pytest.raises(ValueError, match=r"got 'rows\.csv'; allowed: numbers; .* eq\.data\.read_table\(file\)\.values"):
        eq.train(machine(), "rows.csv", eq.cd(1), epochs=1, key=0)
    with pytest.raises(ValueError, match="temperature: got 'cold'; allowed: numbers"):
        eq.sample(machine(), eq.Sweeps(1), chains=1, temperature="cold", key=0)


def test_every_method_is_named():
    with pytest.raises(ValueError, match="method: got 'best'; allowed: 'auto', 'exact', 'ais', 'bethe'"):
        eq.log_likelihood(machine(), DATA, method="best")


def test_grey_data_are_told_what_they_need():
    with pytest.raises(ValueError, match=r"got 0\.5 among the values; allowed: only .* probabilities=True"):
        eq.train(machine(), np.full((3, 4), 0.5), eq.cd(1), epochs=1, key=0)
    with pytest.raises(ValueError, match=r"got 7 among the values; allowed: only \(0\.0, 1\.0\) for Binary units"):
        eq.train(machine(), np.full((3, 4), 7.0), eq.cd(1), epochs=1, key=0)


def test_one_load_and_one_cue_will_do():
    assert eq.recall_at_load(100, 0.05, key=0).sizes == {"load": 1}
    with pytest.raises(ValueError, match="loads: got"):
        eq.recall_at_load(100, -0.05, key=0)
    with pytest.raises(ValueError, match="one number, or several in a row"):
        eq.recall_at_load(100, [], key=0)


def test_a_network_is_saved_where_it_looks_like(tmp_path):
    path = eq.save_network(tmp_path / "net.eqx", machine())
    assert path == tmp_path / "net.eqx"
    assert path.is_file()
    assert eq.load_network(path).names == ("visible", "hidden")
    assert eq.save_network(tmp_path / "net.eqx", eq.rbm(5, 2, key=0)) == path
    assert eq.load_network(path).layers[0].size == 5
    with pytest.raises(ValueError, match=r"net\.npz; allowed: a file that ends in \.eqx or \.safetensors, or a folder"):
        eq.save_network(tmp_path / "net.npz", machine())
    assert eq.save_network(tmp_path / "run.1", machine()).parent == tmp_path / "run.1"


def test_help_shows_what_a_user_calls():
    told = pydoc.render_doc(eq.Network, renderer=pydoc.plaintext)
    assert "free_energy(" in told
    for machinery in ("__dataclass_fields__", "__subclasshook__", "__getattribute__", "inherited from equinox"):
        assert machinery not in told


def test_pictures_are_found():
    assert eq.plots.PALETTE
    assert "plots" in dir(eq)


def test_callbacks_get_the_metrics_and_the_log_tells_them(caplog):
    seen = []
    with caplog.at_level(logging.INFO, "equilibria"):
        eq.train(
            machine(),
            DATA,
            eq.cd(1),
            epochs=2,
            batch_size=2,
            metrics=lambda network: {"size": 3.0},
            callbacks=[lambda step, network, row: seen.append((step, float(row["size"]), "contrast" in row))],
            key=0,
        )
    assert seen == [(1, 3.0, True), (2, 3.0, True), (4, 3.0, True)]
    told = [record for record in caplog.records if record.name != "equilibria.progress"]  # a slow machine tells more
    assert [record.name.partition(".")[0] for record in told] == ["equilibria"] * 3
    assert "step 4, epoch 2" in told[-1].message
    assert "size 3" in told[-1].message


def test_the_library_prints_nothing(capsys):
    eq.train(machine(), DATA, eq.cd(1), epochs=1, batch_size=2, key=0)
    assert capsys.readouterr() == ("", "")


def test_grey_pseudo_likelihood_is_the_mean_over_both_values():
    """With grey values a neuron's two values count by their probabilities; the others stay at their means."""
    network, rows = eq.rbm(3, 2, scale=1.0, key=1), np.array([[0.3, 1.0, 0.6], [0.0, 0.5, 1.0]], np.float32)
    expected = 0.0
    for row in rows:
        for place, share in enumerate(row):
            ends = np.stack([np.where(np.arange(3) == place, value, row) for value in (0, 1)])
            free = np.asarray(network.free_energy({"visible": ends.astype(np.float32)}, ["hidden"]), float)
            logs = -free - np.logaddexp(*-free)
            expected += (1 - share) * logs[0] + share * logs[1]
    assert eq.pseudo_likelihood(network, rows, probabilities=True) == pytest.approx(expected / 2, abs=1e-5)
    bits = np.array([[0, 1, 1], [1, 0, 0]])
    assert eq.pseudo_likelihood(network, bits, probabilities=True) == eq.pseudo_likelihood(network, bits)

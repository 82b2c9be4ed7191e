"""What a person sees of a network: the picture and the tables of notebooks."""

import numpy as np

import equilibria as eq


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_layer_and_every_coupling_is_drawn():
    network = eq.layered((7, 5, 4, 3), skips=[(0, 3)], key=0)
    found = texts(eq.show(network))
    assert [text.split("\n")[0] for text in found[:4]] == list(network.names)
    assert sorted(found[4:]) == sorted(f"{a} × {b}" for a, b in (coupling.shape for coupling in network.couplings))


def test_a_layer_coupled_to_itself_is_drawn_once():
    assert texts(eq.show(eq.hopfield(np.ones((1, 6))))) == ["neurons\n6 Spin", "6 × 6"]


def test_couplings_across_layers_stay_inside_the_picture():
    figure = eq.show(eq.layered((64, 100, 50, 20, 10), skips=[(0, 3), (0, 4), (1, 4)], key=0))
    axes = figure.axes[0]
    figure.canvas.draw()
    frame = axes.get_window_extent()
    for thing in (*axes.patches, *axes.texts):
        assert thing.get_window_extent().x1 <= frame.x1 + 1
        assert thing.get_window_extent().y1 <= frame.y1 + 1


def test_notebooks_show_tables_with_text_escaped():
    network = eq.Network([eq.Layer("<script>", eq.Spin(), np.zeros(2))])
    assert "&lt;script&gt;" in network._repr_html_()
    assert "<script>" not in network._repr_html_()
    rest = eq.equilibrate(eq.hopfield(np.ones((1, 6))), eq.Sweeps(1), temperature=1.0, chains=3, key=0)
    assert "3 × 6" in rest._repr_html_()


def test_a_run_shows_its_last_row():
    run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), steps=2, key=1)
    assert f"{float(run.history['contrast'][-1]):.4g}" in run._repr_html_()
    assert "2 steps, to its end" in run._repr_html_()


def test_runs_side_by_side_show_mean_least_and_largest():
    run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), steps=2, runs=3, key=1)
    last = run.history["contrast"].values[-1]
    shown = "".join(f"<td>{value:.4g}</td>" for value in (last.mean(), last.min(), last.max()))
    assert f"<td>contrast</td>{shown}" in run._repr_html_()
    assert "2 steps, 3 runs, to its end" in run._repr_html_()


def test_learned_synapses_show_their_last_row():
    data = np.sign(np.random.default_rng(0).standard_normal((40, 10)))
    run = eq.learn_synapses(data, 2, steps=3, key=0)
    assert f"<td>bound</td><td>{float(run.history['bound'][-1]):.4g}</td>" in run._repr_html_()
    several = eq.learn_synapses([data, -data], 2, steps=3, key=0)
    assert "3 steps, 2 sets, to its end" in several._repr_html_()


def test_an_estimate_shows_value_and_error_with_its_note_escaped():
    shown = eq.Estimate(-84.3, 0.2, note="<chains> did not mix")._repr_html_()
    assert "-84.30 ± 0.20" in shown
    assert "&lt;chains&gt; did not mix" in shown


def test_a_diagnosis_shows_its_verdict_and_every_number_that_it_prints():
    found = eq.diagnose(eq.rbm(6, 3, key=0), np.eye(6), how=eq.Sweeps(40), chains=4, draws=20, key=1)
    shown = found._repr_html_()
    assert f"<b>{found.verdict}</b>" in shown
    for line in str(found).split("\n")[3:8]:  # of energy, magnetisation and three components
        assert "".join(f"<td>{cell}</td>" for cell in line.split()) in shown
    assert "nearest neighbours, data starts" in shown

"""Figures 2 to 4 and the likelihood: their parts on made-up spectra, where the answer is known."""

import numpy as np
import pytest
import xarray as xr

import equilibria as eq
from equilibria.papers.decelle2017 import fig2, fig3, fig4, likelihood, settings, training

SMALL = training.Config(images=100, hidden=60, batch_size=10, epochs=10, seeds=2)


def spectra(values, directions=None, config=SMALL):
    """Made-up trainings: values (seed, 3, mode) before learning, until half an epoch, and from then on."""
    steps = training.recorded(config)
    early = [0 if step == 0 else 1 if step <= config.per_epoch // 2 else 2 for step in steps]
    if directions is None:
        directions = np.broadcast_to(np.eye(training.MODES, 784), (len(values), 3, training.MODES, 784))
    return xr.Dataset(
        {
            "value": (("seed", "step", "mode"), np.asarray(values)[:, early]),
            "direction": (("seed", "step", "leading", "pixel"), np.asarray(directions)[:, early]),
            "dream": (("seed", "draw", "pixel"), np.ones((len(values), 20, 784))),
        },
        {"step": steps, "epoch": ("step", np.array(steps) / config.per_epoch)},
    )


def noise(rng, config=SMALL):
    return np.linalg.svd(config.variance**0.5 * rng.normal(size=(784, config.hidden)), compute_uv=False)


def components(data=None):
    """Of some data; without them, of data along the first axes in falling variance."""
    if data is None:
        data = np.diag(np.r_[np.arange(30.0, 0, -1), np.full(754, 0.1)])
    return training.Components(eq.principal_components(data), eq.principal_components(data, centred=False))


def by_words(claims):
    return {claim.says.split(" (")[0]: claim for claim in claims}


def test_noise_alone_is_not_learning():
    """Spectra of fresh noise hold the claims about the start and none about what learning does."""
    rng = np.random.default_rng(0)
    values = np.stack([[noise(rng) for _ in range(3)] for _ in range(2)])
    turned = np.linalg.qr(rng.normal(size=(784, training.MODES)))[0].T
    made = spectra(values, np.broadcast_to(turned, (2, 3, *turned.shape)))
    dataset = fig2.found(SMALL, made, components())
    held = [claim.says for claim in fig2.claims(dataset) if claim.held]
    assert [text.split(" ")[0] for text in held] == ["Before", "Before", "After", "The"]
    assert held[2].startswith(
        "After long training there are many outliers"
    )  # twice none is none: b says whether there are
    assert held[3].startswith("The Marchenko-Pastur law is that of the noise")  # which is all there is
    assert len(fig2.plot(dataset).axes) == 3
    verdicts = by_words(fig4.claims(fig4.found(SMALL, made, components())))
    grown = (
        "The strongest mode is amplified",
        "The strongest mode gets out of the bulk",
        "The weakest mode is damped",
        "Before a cut modes grow and beyond it they are damped",
    )
    assert not any(
        verdicts[words].held for words in (*grown, "The top of the spectrum is flatter than that of the data")
    )


def test_a_spectrum_as_the_paper_draws_it_holds_every_claim_of_figure_2():
    rng = np.random.default_rng(1)
    start = noise(rng)
    early = np.r_[[9.0, 8.0, 7.0, 6.0], start[4:]]
    end = np.r_[np.linspace(30, 6, 20), 0.05 * start[np.linspace(0, 59, 40).round().astype(int)]]
    verdicts = by_words(fig2.claims(fig2.found(SMALL, spectra([[start, early, end]] * 2), components())))
    edge = verdicts.pop("The bulk of the noise does not pass the threshold")
    assert not edge.held  # 0.1 (28 + sqrt(60)) is above 1: the paper's words about its own spins do not hold
    assert all(claim.held for claim in verdicts.values() if claim.tested)
    heap = np.r_[end[:20], np.full(40, 0.1)]
    left = np.r_[end[:20], start[20:]]
    for values, lost in (
        (heap, {"The Marchenko-Pastur law is that of the noise in the learned matrix"}),
        (left, {"The noise vanishes by condensing into zero modes", "and values pile up below the bulk, near zero"}),
        (start, {"... and not that of the learned matrix"}),
    ):
        failed = by_words(fig2.claims(fig2.found(SMALL, spectra([[start, early, values]] * 2), components())))
        assert lost <= {words for words, claim in failed.items() if not claim.held}


def test_one_seed_that_fails_is_not_hidden_by_the_others():
    rng = np.random.default_rng(2)
    start = noise(rng)
    learned = [start, np.r_[[9.0, 8.0, 7.0, 6.0], start[4:]], np.r_[np.linspace(30, 6, 20), np.full(40, 0.01)]]
    claim = by_words(fig2.claims(fig2.found(SMALL, spectra([learned, [start] * 3]), components())))
    assert not claim["After few updates some modes have overcome the edge"].held


def test_modes_are_compared_with_components():
    """Data along ten axes, in falling variance, and modes that are these axes, or are not."""
    rng = np.random.default_rng(3)
    spread = np.r_[np.linspace(9, 3, training.MODES), np.full(784 - training.MODES, 0.1)]
    data = rng.normal(size=(3000, 784)) * spread
    data[:, 20] += 100.0  # a mean: the first component of the data with it
    axes = np.eye(training.MODES, 784)
    null = spectra(np.full((1, 3, 60), 2.0), np.broadcast_to(np.eye(784)[[20, *range(9)]], (1, 3, 10, 784)))
    turned = np.linalg.qr(rng.normal(size=(784, training.MODES)))[0].T
    values = np.full((1, 3, 60), 2.0)
    values[:, 0] = 0.5
    right = fig3.found(SMALL, spectra(values, np.stack([axes, axes, axes])[None]), components(data), null)
    # Made-up steps after half an epoch share one direction, so nothing is deformed: all but that claim hold.
    verdicts = by_words(fig3.claims(right))
    failed = {words for words, claim in verdicts.items() if claim.tested and not claim.held}
    assert failed == {"After ten epochs the modes have turned from those after one epoch"}
    centred = spectra(values, np.stack([axes, axes, axes])[None])  # as with the fields of the data
    other = by_words(fig3.claims(fig3.found(SMALL, centred, components(data), centred)))
    assert not other["From null fields the first mode is the first component of the data with their mean"].held
    swapped = np.stack([axes, axes[[1, 0, *range(2, 10)]], axes[[1, 0, *range(2, 10)]]])[None]
    exchanged = by_words(fig3.claims(fig3.found(SMALL, spectra(values, swapped), components(data))))
    assert not exchanged["All ten modes after one epoch are the data's components, each its own"].held
    printed = "... and as they are printed: the first nine are those of the data with their mean, from the second on"
    assert verdicts[printed].held
    assert not exchanged[printed].held
    assert exchanged["The first 3 modes after one epoch lie in the span of the first 10 components"].held
    wrong = fig3.claims(fig3.found(SMALL, spectra(values, np.stack([axes, turned, turned])[None]), components(data)))
    assert not any(claim.held for claim in wrong[:3])


def cuts(values, data):
    """What fig. 4 looks at, with the edge of the noise at 1.05."""
    return spectra(values).assign(data=("component", data)).assign_attrs(edge=1.05)


def test_cuts_count_modes():
    data = np.r_[np.geomspace(300, 30, 10), np.geomspace(3, 2, 6), np.full(29, 0.1)]
    start, end = np.full(40, 1.0), np.r_[np.geomspace(9, 2, 24), np.full(16, 0.5)]
    values = np.stack([start, np.where(np.arange(40) < 12, 2.0, 0.9), end])[None]
    assert fig4.amplified(values).tolist() == [[0, 12, 24]]
    dataset = cuts(values, data)
    assert fig4.linear_cut(dataset) == 16
    verdicts = by_words(fig4.claims(dataset))
    failed = {words for words, claim in verdicts.items() if claim.tested and not claim.held}
    assert failed == {"The linear cut-off is around mode 50", "... and so it is in the machine"}
    assert not any(claim.held for claim in fig4.claims(cuts(values[:, ::-1], data))[:3])
    fades = np.array(values)
    fades[0, -1, 9] = 0.9  # the tenth of forty, which stands for mode 100 of 400
    inset = "The modes of the inset before the cut, 1, 2, 10 and 100 of 400, are amplified"
    assert verdicts[inset].held
    assert not by_words(fig4.claims(cuts(fades, data)))[inset].held


def test_modes_that_grow_and_fade_in_turns_have_no_cut():
    start = np.full(20, 1.0)
    mixed = np.where(np.arange(20) % 2, 2.0, 0.5)
    # A cut behind the second: one of the two before it fades, nine of those beyond it grow.
    np.testing.assert_allclose(fig4.misplaced(np.stack([start, mixed])[None]), [10 / 20])
    one = np.where(np.arange(20) < 12, 2.0, 0.5)
    assert fig4.misplaced(np.stack([start, one])[None]).tolist() == [0.0]
    assert fig4.misplaced(np.stack([start, start])[None]).tolist() == [1 / 20]  # all fade: one lies before any cut


def test_a_flat_spectrum_of_noise_is_no_flattened_one():
    data = np.geomspace(20, 2, 40)
    noise, flat, steep = np.full(40, 1.0), np.geomspace(9, 3, 40), np.geomspace(900, 2, 40)
    found = fig4.flatness(np.stack([noise, flat, steep]), data, 1.05)
    assert np.isnan(found[0])
    assert found[1] < 1 < found[2]


def test_the_first_mode_leaves_the_noise_when_it_is_above_the_edge_and_the_threshold():
    values = np.ones((1, 4, 60))
    values[0, :, 0] = [3.5, 3.6, 4.9, 5.0]  # the edge is at 3.57, and scatters by a fifth
    assert fig3.left_noise(SMALL, values).tolist() == [2]
    assert fig3.left_noise(SMALL, values[:, :2]).tolist() == [1]


def test_every_statement_of_the_three_figures_is_listed():
    listed = [f"{claim.source}: {claim.says}" for claim in settings.statements(SMALL)]
    assert len(listed) == len(set(listed))
    assert {text[:6] for text in listed} >= {"Fig. 2", "Fig. 3", "Fig. 4"}


@pytest.fixture
def few_digits(monkeypatch):
    """Forty noisy copies of four patterns in the place of MNIST."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.choice([-1, 1], (4, 784)), 10, axis=0) * np.where(rng.random((40, 784)) < 0.9, 1, -1)
    training.components.cache_clear()
    monkeypatch.setattr(training, "spins", lambda images: rows[:images].astype(np.int8))
    monkeypatch.setattr(training, "_MADE", {})
    yield
    training.components.cache_clear()


def test_settings_are_run_and_judged(few_digits, tmp_path):
    base = training.Config(images=40, hidden=20, batch_size=10, epochs=2, records=3, seeds=2)
    config = settings.Config(base, samplers=("CD-1",), batch_sizes=(10, 20))
    found = settings.run(config, tmp_path)
    assert found["held"].dims == ("unit", "sampler", "batch_size", "claim")
    assert found["measured"].shape == (2, 1, 2, 2, len(settings.statements(base)))
    assert 0 < int(found["decided"].sum()) < found.sizes["claim"]
    # What the seeds of one setting give is what its figures would say of them.
    dataset = training.learned(base)
    alone = settings.judged(base, dataset, training.components(40))
    np.testing.assert_allclose(found["value"].values[0, 0, 0], [claim.value for claim in alone])
    np.testing.assert_array_equal(found["held"].values[0, 0, 0], [claim.held for claim in alone])
    assert settings.plot(found).axes
    assert settings.claims(found)[0].value < 1


def test_figures_made_in_one_process_share_their_trainings(few_digits, monkeypatch):
    base = training.Config(images=40, hidden=20, batch_size=10, epochs=2, records=3, seeds=1)
    first = fig4.run(base)
    monkeypatch.setattr(training, "_training", None)  # nothing is trained again
    np.testing.assert_array_equal(fig2.run(base)["value"].values, first["value"].sel(step=[0, 1, 8]).values)


def test_drawn_pixels_have_the_grey_value_as_their_mean():
    grey = np.tile(np.array([0, 51, 204, 255], np.uint8), (1, 7))[None].reshape(1, 4, 7)
    rows = likelihood.drawn(grey, copies=4000, seed=0)
    assert rows.dtype == np.uint8
    assert rows.shape == (4000, 28)
    # Four standard deviations of a mean of 4,000 draws.
    np.testing.assert_allclose(rows.mean(0), grey.reshape(-1) / 255, atol=4 * 0.5 / np.sqrt(4000))


def test_the_mark_is_only_claimed_of_the_large_machine():
    row = {"test": -80.0, "train": -79.0, "low": -86.0, "high": -80.0, "error": 0.1}
    dataset = xr.Dataset({name: ("step", [value]) for name, value in row.items()}, {"step": [1]})
    small, large = (likelihood.claims(dataset.assign_attrs(independent=-200.0, hidden=size)) for size in (12, 500))
    assert len(large) == len(small) + 1
    assert large[-1].value == -86.0
    assert not small[2].held  # a bracket of six nats is too wide
    gained = dataset.assign_attrs(independent=-150.0, hidden=500)
    assert likelihood.claims(gained)[1].held  # 70 nats, more than the 24.5 of one step of contrastive divergence
    poor = gained.assign(test=("step", [-126.0]))
    assert not likelihood.claims(poor)[1].held

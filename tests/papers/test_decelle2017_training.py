"""Figures 2 to 4 and the likelihood: their parts on made-up spectra, where the answer is known."""

import numpy as np
import xarray as xr

from equilibria.papers.decelle2017 import fig2, fig3, fig4, likelihood, settings, training

SMALL = training.Config(images=100, hidden=60, batch_size=10, epochs=10, seeds=2)


def spectra(values, directions=None, config=SMALL):
    """Made-up trainings: values (seed, 3, mode) before learning, until half an epoch, and from then on."""
    steps = [0, *sorted(set(training.moments(config)))]
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


def by_words(claims):
    return {claim.says.split(" (")[0]: claim for claim in claims}


def test_noise_alone_is_not_learning():
    """Spectra of fresh noise hold the claims about the start and none about what learning does."""
    rng = np.random.default_rng(0)
    values = np.stack([[noise(rng) for _ in range(3)] for _ in range(2)])
    dataset = fig2.found(SMALL, spectra(values))
    verdicts = [claim.held for claim in fig2.claims(dataset)]
    assert verdicts[:2] == [True, True]
    assert not any(verdicts[3:4] + verdicts[5:])
    assert len(fig2.plot(dataset).axes) == 3


def test_a_spectrum_as_the_paper_draws_it_holds_every_claim_of_figure_2():
    rng = np.random.default_rng(1)
    start = noise(rng)
    early = np.r_[[9.0, 8.0, 7.0, 6.0], start[4:]]
    end = np.sort(np.r_[np.linspace(30, 6, 20), np.full(30, 0.01), start[20:30]])[::-1]
    verdicts = by_words(fig2.claims(fig2.found(SMALL, spectra([[start, early, end]] * 2))))
    edge = verdicts.pop("The bulk of the noise does not pass the threshold")
    assert not edge.held  # 0.1 (28 + sqrt(60)) is above 1: the paper's words about its own spins do not hold
    assert all(claim.held for claim in verdicts.values())


def test_one_seed_that_fails_is_not_hidden_by_the_others():
    rng = np.random.default_rng(2)
    start = noise(rng)
    learned = [start, np.r_[[9.0, 8.0, 7.0, 6.0], start[4:]], np.r_[np.linspace(30, 6, 20), np.full(40, 0.01)]]
    claim = by_words(fig2.claims(fig2.found(SMALL, spectra([learned, [start] * 3]))))
    assert not claim["After few updates some modes have overcome the edge"].held


def test_modes_are_compared_with_components():
    """Data along ten axes, in falling variance, and modes that are these axes, or are not."""
    rng = np.random.default_rng(3)
    spread = np.r_[np.linspace(9, 3, training.MODES), np.full(784 - training.MODES, 0.1)]
    data = rng.normal(size=(3000, 784)) * spread
    axes = np.eye(training.MODES, 784)
    turned = np.linalg.qr(rng.normal(size=(784, training.MODES)))[0].T
    values = np.full((1, 3, 60), 2.0)
    values[:, 0] = 0.5
    right = fig3.found(SMALL, spectra(values, np.stack([axes, axes, axes])[None]), data, spectra(values))
    # Made-up steps after half an epoch share one direction, so nothing is deformed: all but that claim hold.
    verdicts = by_words(fig3.claims(right))
    tested = [claim for claim in verdicts.values() if claim.tested and not claim.source.startswith("Fig. 3a")]
    assert all(claim.held for claim in tested)
    swapped = np.stack([axes, axes[[1, 0, *range(2, 10)]], axes[[1, 0, *range(2, 10)]]])[None]
    exchanged = by_words(fig3.claims(fig3.found(SMALL, spectra(values, swapped), data)))
    assert not exchanged["All ten modes after one epoch are the data's components, each its own"].held
    assert exchanged["The first 3 modes after one epoch lie in the span of the first 10 components"].held
    wrong = fig3.claims(fig3.found(SMALL, spectra(values, np.stack([axes, turned, turned])[None]), data))
    assert not any(claim.held for claim in wrong[:3])


def test_cuts_count_modes():
    start, end = np.full(20, 1.0), np.r_[np.geomspace(9, 1.1, 12), np.full(8, 0.5)]
    values = np.stack([start, np.where(np.arange(20) < 6, 2.0, 0.9), end])[None]
    assert fig4.amplified(values).tolist() == [[0, 6, 12]]
    dataset = spectra(values).assign(
        data=("component", np.r_[np.full(5, 30.0), np.geomspace(3, 2, 6), np.full(19, 0.1)])
    )
    assert fig4.linear_cut(dataset) == 11
    verdicts = by_words(fig4.claims(dataset))
    assert not verdicts.pop("The linear cut-off is around mode 50").held
    assert all(claim.held for claim in verdicts.values())
    assert not any(claim.held for claim in fig4.claims(spectra(values[:, ::-1]).assign(data=dataset["data"]))[:3])


def test_every_statement_of_the_three_figures_is_listed():
    listed = settings.statements(SMALL)
    assert len(listed) == len(set(listed))
    assert {text.split(":")[0][:6] for text in listed} >= {"Fig. 2", "Fig. 3", "Fig. 4"}


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
    assert not small[1].held  # a bracket of six nats is too wide

"""Figures 2 to 4 and the likelihood: their parts on made-up spectra, where the answer is known."""

import numpy as np
import xarray as xr

from equilibria.papers.decelle2017 import fig2, fig3, fig4, likelihood


def test_noise_alone_is_not_learning():
    """Spectra of fresh noise hold the claims about the start and none about the end."""
    rng = np.random.default_rng(0)
    noise = [np.linalg.svd(fig2.SCALE * rng.normal(size=(784, 60)), compute_uv=False) for _ in range(3)]
    low, edge = fig2.marchenko_pastur_edges(784, 60, variance=fig2.SCALE**2)
    dataset = xr.Dataset(
        {"value": (("step", "mode"), np.stack(noise))},
        {"step": [0, 5, 100], "epoch": ("step", [0.0, 0.5, 10.0])},
        {"early": 5, "low": low, "edge": edge, "hidden": 60},
    )
    held = [claim.held for claim in fig2.claims(dataset)]
    assert held[:3] == [True, True, True]
    assert not held[3]
    assert len(fig2.plot(dataset).axes) == 3


def test_modes_are_compared_with_components():
    components = np.eye(10, 784)
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(784, 10)))[0].T
    sets = {
        "null": components,
        "null, one epoch": components,
        "beginning": components,
        "one epoch": components,
        "end": turned,
        "components": components,
        "raw components": components,
    }
    dataset = xr.Dataset(
        {"mode": (("set", "rank", "pixel"), np.stack(list(sets.values()))), "strength": ("rank", np.full(10, 1.0))},
        {"set": list(sets)},
        {"hidden": 400},
    )
    assert all(claim.held for claim in fig3.claims(dataset))
    swapped = {name: turned if "components" not in name and name != "end" else components for name in sets}
    wrong = dataset.assign(mode=dataset.mode.copy(data=np.stack(list(swapped.values()))))
    assert not any(claim.held for claim in fig3.claims(wrong))


def test_noise_leaves_a_mode_part_of_its_direction():
    random, rows, columns, draws = np.random.default_rng(0), 400, 200, 10
    mode = np.outer(np.eye(rows)[0], np.eye(columns)[0])
    for strength in (0.4, 0.8):
        gaps = []
        for _ in range(draws):
            noise = fig3.SCALE * random.standard_normal((rows, columns))
            left, values, _ = np.linalg.svd(strength * mode + noise, full_matrices=False)
            gaps.append(left[0, 0] ** 2 - fig3.spiked_share(values[0], rows, columns))
        # One share scatters by 0.03 or less; that of the other side of the matrix differs by 0.03 and 0.09.
        assert abs(np.mean(gaps)) < 0.02


def test_cuts_count_modes():
    start, end = np.full(20, 1.0), np.r_[np.geomspace(9, 1.1, 12), np.full(8, 0.5)]
    dataset = xr.Dataset(
        {
            "value": (("step", "mode"), np.stack([start, np.where(np.arange(20) < 6, 2.0, 0.9), end])),
            "data": ("component", np.r_[np.full(5, 30.0), np.geomspace(3, 2, 6), np.full(19, 0.1)]),
        },
        {"step": [0, 5, 100], "epoch": ("step", [0.0, 0.5, 10.0])},
    )
    assert fig4.amplified(dataset).tolist() == [0, 6, 12]
    assert fig4.linear_cut(dataset) == 11
    assert all(claim.held for claim in fig4.claims(dataset))


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

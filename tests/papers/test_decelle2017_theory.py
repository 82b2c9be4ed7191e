"""Figures of the theory: their claims on made-up numbers, where the answer is known."""

import numpy as np
import pytest
import xarray as xr

import equilibria as eq
from equilibria.papers.decelle2017 import curve, ensemble, extensive, fields, fig1, phases, statements

TINY = fig1.Config(
    visible=12, hidden=6, samples=300, scale=0.01, variances=(4.0, 2.0), duration=20.0, records=100, seeds=1
)


def failed(claims, ours=None):
    return [claim.says.split(" (")[0] for claim in claims if claim.verdict == "not held" and ours in (None, claim.ours)]


@pytest.fixture(scope="module")
def learned():
    return fig1.run(TINY)


def test_what_is_printed_of_the_linear_machine_fails_and_what_solves_its_equations_holds(learned):
    claims = fig1.claims(learned)
    assert failed(claims, ours=True) == []
    printed = {"equation for Omega before Fig. 1", "equilibria after Fig. 1"}
    assert {claim.source for claim in claims if claim.verdict == "not held"} == printed
    assert failed(claims, ours=False)[1:] == [
        "Modes above the threshold end at the printed w^2 = variance - 1", "Modes below it end at the printed w^2 = variance",
    ]  # fmt: skip


def test_each_claim_of_the_linear_machine_fails_for_its_own_reason(learned):
    usual = set(failed(fig1.claims(learned)))

    def more(**changed):
        return {words.split(":")[0] for words in set(failed(fig1.claims(learned.assign(changed)))) - usual}

    assert more(overlap=0 * learned["overlap"]) == {"The vectors of W are aligned with those of the data at the end"}
    flat = learned["likelihood"].mean("time").broadcast_like(learned["likelihood"])
    assert "The likelihood increases at each eigenvalue learned" in more(likelihood=flat)
    grown = learned["strength"].copy()
    grown[:, -1, 0] = 1.1
    assert more(strength=grown) == {"The distribution learned is unimodal"}
    left = learned["strength"].copy()
    left[:, -1, -1] = 0.2
    assert more(strength=left) == {
        "Other deformations are damped to zero",
        "All components above the threshold are learned, and no others",
    }
    lost = learned["strength"].copy()
    lost[:, -1, 1] = 0.0
    assert "All components above the threshold are learned, and no others" in more(strength=lost)
    assert more(gap=learned["gap"] + 1e-3) == {
        "The printed growth of the modes is that of the machine",
        "With rotations that solve",
    }
    swapped = learned["strength"].copy()
    swapped[..., :2] = swapped[..., [1, 0]].values
    assert "Modes emerge one by one, in the order of their variance" in more(strength=swapped)


def diagram(**changed):
    """A result of `phases` in which everything holds."""
    noise = np.linspace(0.2, 2.0, 8)
    laws, machines = list(phases.LAWS), 2
    states = np.zeros((3, 2, 2), int)
    states[0, :, 0] = 1  # Gaussian: the strongest mode alone
    states[1:] = [[4, 2], [4, 3]]
    kept = np.full((3, machines, 2), 0.9)
    kept[0, :, 1] = 0.0
    point = ("machine", "point")
    dataset = xr.Dataset(
        {
            "residual": ((), 1e-12),
            "critical": ("noise", statements.classical(noise)),
            "leading": (("law", "scale"), np.zeros((3, 2), int)),
            "states": (("law", "scale", "kind"), states),
            "dial_states": (("kurtosis", "kind"), np.array([[4, 1], [3, 0], [1, 0], [1, 0]])),
            "kept": (("law", "machine", "begun_mode"), kept),
            "kept_theory": (("law", "machine"), np.full((3, machines), 0.9)),
            "sampled_phase": (point, np.ones((machines, 2), int)),
            "theory_phase": (point, np.ones((machines, 2), int)),
            **{
                f"{kind}_{name}": (point, np.full((machines, 2), value))
                for kind, value in (("sampled", 0.5), ("theory", 0.5), ("error", 0.01))
                for name in ("m", "mbar")
            },
        },
        {"noise": noise, "law": laws, "kind": ["single", "mixed"], "kurtosis": [1.0, 2.0, 3.0, 6.0], "scale": [2.0, 6.0]},
        {"aspect": 0.5, "visible": 2000, "ratio": 0.8},
    )  # fmt: skip
    return dataset.assign({name: (dataset[name].dims, value) for name, value in changed.items()})


def test_each_claim_about_phases_fails_for_its_own_reason():
    def said(**changed):
        return [words.split(":")[0] for words in failed(phases.claims(diagram(**changed)))]

    assert said() == []
    assert said(critical=1.3 * statements.classical(np.linspace(0.2, 2.0, 8))) == [
        "The diagram is that of the SK model with ferromagnetic coupling"
    ]
    assert said(leading=np.eye(3, 2, dtype=int)) == ["The mode with the highest singular value dominates"]
    none = diagram()["states"].values.copy()
    none[1, :, 1] = 0
    assert said(states=none) == ["Uniform components"]  # its mixtures, though the other law has some
    assert said(dial_states=np.array([[4, 1], [1, 0], [1, 0], [1, 0]])) == ["Components of smaller kurtosis than 3"]
    assert said(dial_states=np.array([[4, 1], [3, 0], [1, 0], [2, 0]])) == ["Components of larger kurtosis than 3"]
    stays = diagram()["kept"].values.copy()
    stays[0, 1, 1] = 0.5  # one machine of two
    assert said(kept=stays) == ["Gaussian components"]
    assert said(sampled_m=np.array([[0.5, 0.5], [0.5, 0.536]])) == [
        "Ferromagnet"
    ]  # 3.6 standard deviations, of one machine
    assert said(sampled_m=np.full((2, 2), 0.53)) == ["The order parameters average themselves"]  # 3, of every one
    assert said(sampled_phase=np.array([[1, 1], [1, 2]])) == [
        "The equations tell where the machine is a spin glass",
        "Machines sampled in the three phases are found in the phase predicted",
    ]


def test_order_parameters_of_several_machines_are_drawn():
    shape = ("point", "machine")
    wanted = ("q", "m", "mbar")
    values = {
        f"{kind}_{name}": (shape, np.full((3, 2), 0.5)) for kind in ("sampled", "theory", "error") for name in wanted
    }
    values["replicon"] = (shape, np.array([[0.5, 2.0]] * 3))
    values["theory_phase"] = values["sampled_phase"] = (shape, np.ones((3, 2), int))
    made = diagram().drop_vars([name for name in values if name in diagram()])
    edge = {"phase": (("noise", "strength"), np.zeros((8, 4))), "at_line": ("ordered_strength", [1.0, 1.5])}
    points = {"point_noise": ("point", [0.3, 0.6, 1.0]), "point_strength": ("point", [0.5, 1.5, 2.0])}
    grid = {"strength": np.linspace(0.1, 3, 4), "ordered_strength": [1.5, 2.0]}
    made = made.assign(values | edge).assign_coords(points | grid)
    assert len(phases.plot(made).axes) == 4


def test_the_classical_line_is_that_of_the_ensemble_with_layers_of_one_size():
    from equilibria.theory import critical_strength

    noise = np.array([0.5, 1.2, 2.0])
    np.testing.assert_allclose(statements.classical(noise), critical_strength(noise, aspect=1.0), rtol=1e-4)


def test_components_of_a_kurtosis_have_it():
    for value in phases.KURTOSIS:
        drawn = phases.three_valued(value).values
        assert [np.mean(drawn**2), np.mean(drawn**4)] == pytest.approx([1, value])


def curves(**changed):
    """A result of `curve` in which everything holds: two clusters along axes, two modes that pass the threshold."""
    times = np.linspace(0.1, 1.2, 10)
    seen = np.stack([0.2 * np.exp(2 * times), 0.15 * np.exp(2 * times), 0.1 + 0 * times], axis=1)
    directions = np.eye(3, 20) / 1.0
    laws = np.stack([1.1 * seen, 0.9 * seen])
    laws[0, :5] = laws[1, :5] = seen[:5]
    both = {
        "measured": (("seed", "time", "mode"), np.stack([seen] * 2)),
        "predicted": (("seed", "law", "time", "mode"), np.stack([laws] * 2)),
        "direction": (("seed", "mode", "unit"), np.stack([directions] * 2)),
        "centre": (("seed", "cluster", "unit"), np.stack([directions[[1, 0]]] * 2)),
        "empirical": (("seed", "mode", "other"), np.stack([np.diag([3.0, 2.0, 0.1])] * 2)),
        "magnetization": (("seed", "cluster"), np.full((2, 2), 0.82)),
        "image_measured": (("seed", "image_time", "mode"), np.full((2, 4, 3), 0.3)),
        "variance": (("seed", "mode"), np.full((2, 3), 20.0)),
        "image_predicted": (("seed", "image_law", "image_time", "mode"), np.full((2, 1, 4, 3), 0.3)),
    }
    dataset = xr.Dataset(
        both,
        {"time": times, "image_units": ("seed", [1000.0, 1000.0])},
        {"clusters": 2, "hidden": 60, "images": "x", "agreement": 0.8},
    )
    return dataset.assign({name: (dataset[name].dims, value) for name, value in changed.items()})


def test_each_claim_about_a_learning_curve_fails_for_its_own_reason():
    def said(**changed):
        return [words.split(":")[0] for words in failed(statements.curve_claims(curves(**changed)))]

    assert said() == []
    turned = curves()["direction"].values.copy()
    turned[1, 0] = np.roll(turned[1, 0], 7)
    assert said(direction=turned) == ["The modes point in the directions of the clusters, one for each"]
    mixed = curves()["empirical"].values.copy()
    mixed[1, 0, 1] = 1.0
    assert said(empirical=mixed) == ["The empirical term becomes diagonal in the frame of these modes"]
    late = curves()["measured"].values.copy()
    late[:, :-1] *= 0.4
    assert "Clusters" in said(measured=late)
    assert said(image_measured=np.full((2, 4, 3), 0.5))[0].startswith("Leading modes of x")
    high = curves()["measured"].values.copy()
    high[1, -1] *= [1.2, 0.95, 1.0]  # the mean is between the curves, the first mode is not
    assert said(measured=high) == ["Clusters"]
    off = curves()["measured"].values.copy()
    off[1, 7, 1] *= 0.7  # one record of one seed
    assert said(measured=off) == ["The learning curve is deterministic"]
    ended = curves()["predicted"].values.copy()
    ended[1, 0, -1] = np.nan  # a curve that stopped early is no agreement
    assert "The learning curve is deterministic" in said(predicted=ended)
    weak = curves()["measured"].values.copy()
    weak[1, -1, 1] = 0.9  # one mode of one seed
    assert "The machine reaches a ferromagnetic phase with many states" in said(measured=weak)
    assert "Later the Gaussian estimate of the machine's response is no longer valid" in "".join(said(measured=weak))
    assert said(magnetization=np.array([[0.82, 0.82], [0.82, 0.95]])) == [
        "The singular values match the magnetization of each fixed point"
    ]


def test_a_state_at_a_centre_has_the_magnetization_of_its_fixed_point():
    """Two ±1 patterns, orthogonal: the state is m = tanh(w m) for layers of one size."""
    random = np.random.default_rng(0)
    left, right = random.choice([-1.0, 1.0], (2, 2, 1000))
    weights = 1.6 * left.T @ right / 1000
    network = eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Spin())
    m = 0.9
    for _ in range(200):
        m = np.tanh(1.6 * m)
    # means of 1,000 spins of 20 chains; the patterns overlap by 1/sqrt(1000)
    np.testing.assert_allclose(curve.magnetization(network, left, key=0), m, atol=0.03)


def test_the_average_over_the_orthogonal_group_is_that_of_noise_where_all_directions_are_noise():
    """A matrix of normal numbers is one of the ensemble: A = 1 + kappa^(1/2) sigma^2, B = 1 + kappa^(-1/2) sigma^2."""
    visible, hidden, noise = 600, 300, 0.8
    units = np.sqrt(visible * hidden)
    draws = np.random.default_rng(0).standard_normal((visible, hidden)) * noise / np.sqrt(units)
    found = extensive.invariant(np.linalg.svd(draws, compute_uv=False), visible, hidden)
    expected = [1 + 0.5**0.5 * noise**2, 1 + 0.5**-0.5 * noise**2]
    np.testing.assert_allclose([found.visible, found.hidden], expected, rtol=0.01)  # of order 1/N_h


def test_few_modes_answer_as_in_the_linear_machine_and_many_of_like_strength_never_condense():
    strengths = np.array([0.9, 0.5])
    linear = strengths / (1 - strengths**2)
    np.testing.assert_allclose(extensive.invariant(strengths, 10**7, 10**7).correlations, linear, rtol=1e-5)
    for share in (0.1, 0.5, 1.0):
        found = extensive.invariant(np.full(round(100 * share), 3.0), 200, 100)
        assert found.visible * found.hidden > 9.0
        np.testing.assert_allclose(found.correlations.sum() * 3.0, 200 * (found.visible - 1))
        np.testing.assert_allclose(found.correlations.sum() * 3.0, 100 * (found.hidden - 1))


def test_machines_with_many_modes_are_sampled_and_judged(tmp_path):
    config = extensive.Config(visible=100, groups=2, chains=8, sweeps=200, seeds=1)
    found = extensive.run(config, tmp_path)
    assert len(extensive.plot(found).axes) == 2

    def said(dataset):
        return [words.split(":")[0] for words in failed(extensive.claims(dataset))]

    theory = found["invariant"].broadcast_like(found["response"])
    right = found.assign(response=theory, error=0.01 * theory, strongest=0 * found["strongest"])
    assert said(right) == []
    off = right["response"].copy()
    off[1, 0, 1] *= 1.2  # one group of strong modes
    assert said(right.assign(response=off)) == [
        "With as many modes as hidden neurons the average over the orthogonal group is the theory"
    ]
    finite = theory.copy()
    finite[0] = found["linear"].values
    assert len(said(right.assign(response=finite))) == 2
    stays = right["strongest"] + 0.5
    assert said(right.assign(strongest=stays)) == ["Modes stronger than 1 do not condense where they are many"]


def test_fields_that_leave_their_curve_are_seen():
    shape, dims = (2, 4, 2), ("seed", "time", "mode")
    whole = {name: (dims, np.full(shape, 0.5)) for name in fields.SEEN}
    dataset = xr.Dataset(whole | {f"predicted_{name}": part for name, part in whole.items()}, attrs={"hidden": 100})
    assert failed(fields.claims(dataset)) == []
    off = dataset["visible_field"].values.copy()
    off[1, 3, 0] = 0.7
    assert failed(fields.claims(dataset.assign(visible_field=(dims, off)))) == [
        "The visible fields along the modes follow the curve: largest distance over the largest value"
    ]
    short = dataset["predicted_strength"].values.copy()
    short[0, 3] = np.nan  # a curve that ends early is no agreement
    assert len(failed(fields.claims(dataset.assign(predicted_strength=(dims, short))))) == 1


def test_machines_of_the_ensemble_are_drawn_by_phases():
    import jax

    config = phases.Config(visible=40)
    drawn = phases._drawn(config, [2.0], 0.1, "bernoulli", jax.random.key(0))
    assert isinstance(drawn, ensemble.Machine)
    assert set(np.unique(drawn.visible)) == {-1.0, 1.0}


@pytest.mark.parametrize("law", phases.LAWS)
def test_10_is_the_ensemble_that_is_drawn(law):
    """Modes of the strengths asked for, in noise of variance sigma^2 / L."""
    drawn = ensemble.machine([3.0, 2.0], noise=0.0, visible=3000, aspect=0.5, law=law, random=np.random.default_rng(0))
    found = eq.spectrum(drawn.network)
    # the rank is that of the modes; these overlap and have lengths that scatter by 1/sqrt(N_h), 0.026
    np.testing.assert_allclose(found.values[:3], [3.0, 2.0, 0.0], atol=0.2)
    assert found.values[2] < 1e-4
    noisy = ensemble.machine([0.0], noise=0.7, visible=600, aspect=0.5, law=law, random=np.random.default_rng(1))
    weights = np.asarray(noisy.network.couplings[0].matrix())
    assert noisy.units == pytest.approx(np.sqrt(600 * 300))
    # the variance of 180,000 normal numbers, five standard errors
    assert np.var(weights) * noisy.units / 0.49 == pytest.approx(1, abs=5 * np.sqrt(2 / weights.size))
    assert [np.mean(part**2) for part in (drawn.visible, drawn.hidden)] == pytest.approx([1, 1], abs=0.1)

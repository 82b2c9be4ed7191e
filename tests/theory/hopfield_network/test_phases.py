"""The lines of the phase diagram against landmarks, and the diagram against its own lines."""

import time

import numpy as np
import pytest
import xarray as xr

from equilibria.theory import hopfield, hopfield_capacity, hopfield_glass, hopfield_lines, hopfield_phases


def test_first_order_line_at_zero_temperature():
    assert hopfield_lines(0.0).first_order == pytest.approx(0.05185, abs=5e-6)  # five digits are known


@pytest.mark.parametrize("sleep", [0.0, 1.0])
def test_lines_divide_what_they_say(sleep):
    temperature = np.array([0.01, 0.2, 0.6, 0.95])
    lines = hopfield_lines(temperature, sleep)
    assert lines.converged.all()
    np.testing.assert_allclose(lines.spinodal, hopfield_capacity(temperature, sleep), rtol=1e-12)  # computed again
    assert (lines.first_order < lines.spinodal).all()
    for step in (-1e-4, 1e-4):
        load = lines.first_order * (1 + step)
        glass = hopfield(load, temperature, sleep, branch="spin glass")
        rival = np.where(
            glass.exists, glass.free_energy, hopfield(load, temperature, sleep, branch="paramagnet").free_energy
        )
        assert (np.sign(rival - hopfield(load, temperature, sleep).free_energy) == -np.sign(step)).all()


def test_replica_symmetry_breaks_at_low_temperature_only():
    lines = hopfield_lines([0.0, 0.01, 0.3])
    assert lines.almeida_thouless[0] == 0
    assert 0 < lines.almeida_thouless[1] < lines.spinodal[1]
    assert lines.almeida_thouless[2] == lines.spinodal[2]
    below, above = (hopfield(lines.almeida_thouless[1] * x, 0.01).stability for x in (1 - 1e-4, 1 + 1e-4))
    assert below > 0 > above


def test_instability_of_retrieval_at_small_loads():
    """T = sqrt(8 alpha / 9 pi) exp(-1 / 2 alpha), for small loads (Amit, Gutfreund, Sompolinsky 1987)."""
    temperature = np.array([1e-5, 1e-7])
    load = hopfield_lines(temperature).almeida_thouless
    np.testing.assert_allclose(np.log(np.sqrt(8 * load / (9 * np.pi))) - 1 / (2 * load), np.log(temperature), atol=0.3)


def test_phases_follow_the_lines():
    phases = hopfield_phases(np.linspace(0.005, 0.2, 9), np.linspace(0.0, 1.5, 8))
    load, temperature = phases["load"], phases["temperature"]  # `phases.load` is a method of xarray
    expected = xr.where(temperature < phases.glass, 1, 0)
    expected = xr.where((load <= phases.spinodal) & (temperature < 1), 2, expected)
    expected = xr.where((load <= phases.first_order) & (temperature < 1), 3, expected)
    np.testing.assert_array_equal(phases.phase, expected.transpose("temperature", "load"))
    assert set(np.unique(phases.phase)) == {0, 1, 2, 3}
    assert bool(phases.converged.all())
    # computed again, to the tolerance of roots and to rounding
    m = hopfield(load.values, temperature.values[:, None]).m
    np.testing.assert_allclose(phases.m.sel(branch="retrieval"), m, rtol=1e-12)
    np.testing.assert_allclose(phases.glass, hopfield_glass(load.values), rtol=1e-14)


def test_retrieval_above_the_glass_temperature():
    # after sleep patterns are retrieved where spins would not freeze on their own
    phases = hopfield_phases([0.05], [0.5], sleep=10.0)
    assert phases.glass.item() < 0.5
    assert phases.phase.item() == 3


def test_diagram_can_be_kept(tmp_path):
    phases = hopfield_phases([0.02, 0.1], [0.1, 1.5])
    phases.to_netcdf(tmp_path / "phases.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "phases.nc", engine="h5netcdf") as kept:
        xr.testing.assert_equal(kept, phases)
        assert list(kept.phase.names) == list(phases.phase.names)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="temperature: got"):
        hopfield_phases([0.1], [-0.1])
    with pytest.raises(ValueError, match="load: got"):
        hopfield_phases([-0.1], [0.1])
    with pytest.raises(ValueError, match="sleep: got"):
        hopfield_lines(0.1, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("sleep", [0.0, 1.0, 10.0])
def test_a_fine_diagram_takes_seconds(sleep):
    start = time.process_time()  # the processor's, not the clock on the wall: other tests run beside this one
    phases = hopfield_phases(np.linspace(0.002, 0.2, 100), np.linspace(0.0, 1.5, 100), sleep)
    assert time.process_time() - start < 5
    assert bool(phases.converged.all())

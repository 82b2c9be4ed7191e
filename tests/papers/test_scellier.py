"""The experiments of Scellier and Bengio at the smallest size: they run, plot and judge; training goes on after a stop."""

import numpy as np
import pytest

from equilibria import plots
from equilibria.papers.scellier2017 import comparison, stdp, stochastic, table2, theorem
from equilibria.progress import progress

SMALL = {
    theorem: theorem.Config(networks=1, neurons=4, nudges=(0.03, 0.01)),
    stdp: stdp.Config(neurons=5, steps=(0.25, 0.125, 0.0625)),
    stochastic: stochastic.Config(temperatures=(1.0,), chains=100, steps=400),
    comparison: comparison.Config(hidden=8, epochs=1, probe=20),
}


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(module, marks=pytest.mark.slow) if module in (comparison, stochastic) else module
        for module in SMALL
    ],
    ids=lambda module: module.__name__.split(".")[-1],
)
def test_small_runs(module):
    dataset = module.run(SMALL[module], progress)
    with plots.style():
        assert module.plot(dataset).axes
    claims = module.claims(dataset)
    assert claims
    if module is not comparison:  # what needs no learning holds at any size
        assert [claim.says for claim in claims if not claim.held] == []
    else:
        assert claims[0].held  # the gradient is the gradient


def test_table2_goes_on_after_a_stop(tmp_path, monkeypatch):
    """Two epochs at once, or stopped in the second and gone on with from the first one's checkpoint: the same errors."""
    small = table2.Config(
        train=200, paper_size=10, paper_epochs=(2, 0, 0), fast_epochs=(0, 0, 0), our_epochs=(0, 0, 0), seed=1
    )
    once = table2.run(small, tmp_path / "once")
    error, calls = table2.error, []

    def stopped(*arguments):
        """Two errors are measured after each epoch."""
        calls.append(arguments)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return error(*arguments)

    monkeypatch.setattr(table2, "error", stopped)
    with pytest.raises(KeyboardInterrupt):
        table2.run(small, tmp_path / "twice")
    monkeypatch.setattr(table2, "error", error)
    again = table2.run(small, tmp_path / "twice")
    for column in ("train", "test", "unconverged"):
        np.testing.assert_array_equal(once[column], again[column])
    assert once["train"].sizes == {"network": 1, "epoch": 2}
    with plots.style():
        assert table2.plot(once).axes
    assert {claim.expected for claim in table2.claims(once)} == {4.0, 18.0}


def test_schedules_are_those_of_table_2():
    steps = [
        (int(s.recipe.base.how.steps), int(s.recipe.plus.how.steps)) for s in map(table2.paper_schedule, (1, 2, 3))
    ]
    assert steps == [(20, 4), (100, 6), (500, 8)]
    for depth in (1, 2, 3):
        for schedule in table2.SCHEDULES.values():
            assert len(schedule(depth).rates) == depth + 1

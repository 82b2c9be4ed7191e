"""Every attack of the fault suite, with few attempts each; `make test-faults` makes all of them."""

import pytest

from faults import disk, extremes, inputs, mutations


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(lambda: disk.faults(reasons=disk.REASONS[:1]), id="faults of the disk"),
        pytest.param(lambda: mutations.mutations(140), id="mutations"),
        pytest.param(inputs.inputs, id="wrong options"),
        pytest.param(lambda: extremes.responses(heat=(1e-12, 1.0, 1e12)), id="units"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_is_lost_and_nothing_is_silent(attack):
    tally = attack()
    print(tally.row)
    assert not tally.broken, "\n".join(tally.broken)
    assert sum(tally.outcomes.values()) > 0


def test_no_option_is_left_out():
    tried = {(command, option) for command, options in inputs.WRONG.items() for option in options}
    assert inputs.options() <= tried

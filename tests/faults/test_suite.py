"""Every attack of the fault suite, with few attempts each; `make test-faults` makes all of them."""

import jax
import pytest

from faults import disk, extremes, inputs, kills, mutations, pairs, suite

CACHE = jax.config.jax_compilation_cache_dir


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(lambda: kills.kills(3, CACHE, work=("train", "replace", "grid")), id="kills"),
        pytest.param(lambda: pairs.pairs(1, CACHE, work=("train",)), id="two at once"),
        pytest.param(lambda: disk.faults(reasons=disk.REASONS[:1]), id="faults of the disk"),
        pytest.param(lambda: disk.fullness(3), id="a full disk"),
        pytest.param(lambda: mutations.mutations(140), id="mutations"),
        pytest.param(inputs.inputs, id="wrong options"),
        pytest.param(lambda: extremes.responses(heat=(1e-12, 1.0, 1e12)), id="units"),
        pytest.param(lambda: extremes.machines(pairs=("Binary-Binary",), heat=(1e-12, 1.0)), id="machines"),
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


def test_the_page_says_that_nothing_got_through():
    page = suite.PAGE.read_text()
    counted = page.split(suite.BEGIN)[1].split(suite.END)[0]
    rows = [line.split("|") for line in counted.splitlines() if line.startswith("| ")][1:]
    assert rows
    assert all(row[-2].strip() == "0" for row in rows)  # lost or silent

"""Every attack of the fault suite, with few attempts each; `make test-faults` makes all of them."""

from collections import Counter

import jax
import pytest

from faults import disk, extremes, inputs, kills, mutations, pairs, parsers, suite
from faults.nursery import Nursery
from faults.tally import Tally


@pytest.fixture(scope="module")
def nursery():
    with Nursery(jax.config.jax_compilation_cache_dir) as nursery:
        yield nursery


def passed(tally):
    print(tally.row)
    assert not tally.broken, "\n".join(tally.broken)
    assert sum(tally.outcomes.values()) > 0


def test_killed_work_goes_on(nursery):
    passed(kills.kills(3, nursery, work=("train", "replace", "grid")))


def test_two_at_once(nursery):
    passed(pairs.pairs(1, nursery, work=("train",)))


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(lambda: disk.faults(reasons=disk.REASONS[:1]), id="faults of the disk"),
        pytest.param(lambda: disk.fullness(3), id="a full disk"),
        pytest.param(lambda: mutations.mutations(140), id="mutations"),
        pytest.param(lambda: inputs.inputs(most=1), id="wrong options"),
        pytest.param(lambda: extremes.responses(heat=(1e-12, 1.0, 1e12)), id="units"),
        pytest.param(lambda: extremes.machines(pairs=("Binary-Binary",), heat=(1e-12, 1.0)), id="machines"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_is_lost_and_nothing_is_silent(attack):
    passed(attack())


@pytest.mark.parametrize("name", parsers.GOOD)
def test_any_bytes_are_read_or_refused(name):
    assert parsers.ended(name, parsers.GOOD[name]()) == "read"
    ends, broken = parsers.drawn(name, 40)
    assert not broken
    assert sum(ends.values()) >= 20


def test_no_option_is_left_out():
    tried = {(command, option) for command, options in inputs.WRONG.items() for option in options}
    assert inputs.options() <= tried


def test_rows_of_the_page_are_replaced_all_or_those_counted_again():
    first, second = (Tally(name, 3, Counter(refused=3), []) for name in ("a b", "c"))
    empty = f"x\n{suite.BEGIN}\nold\n{suite.END}\ny"
    page = suite.written(empty, {"first": first, "second": second}, "1 minutes", again=False)
    rows = ["| a b | 3 | 3 refused | 0 |", "| c | 3 | 3 refused | 0 |"]
    assert page.split("\n")[:6] == ["x", suite.BEGIN, *suite.HEAD, *rows]
    assert "old" not in page
    again = suite.written(page, {"first": first._replace(attempts=4)}, "2 minutes", again=True)
    assert again.split("\n")[4:6] == ["| a b | 4 | 3 refused | 0 |", rows[1]]
    assert "Counted in 1 minutes" in again
    assert "again in 2 minutes" in again
    assert again.endswith(f"{suite.END}\ny")


def test_the_page_says_that_nothing_got_through():
    page = suite.PAGE.read_text()
    counted = page.split(suite.BEGIN)[1].split(suite.END)[0]
    rows = [line.split("|") for line in counted.splitlines() if line.startswith("| ")][1:]
    assert rows
    assert all(row[-2].strip() == "0" for row in rows)  # lost or silent

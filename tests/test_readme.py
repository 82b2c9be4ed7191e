"""The README's examples run, and say what they claim."""

import re
from pathlib import Path

import numpy as np
import pytest

import equilibria as eq
from equilibria.app import report, results

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def run(example: str, capsys, names: dict | None = None) -> list[str]:
    exec(compile(example, "README.md", "exec"), {} if names is None else names)
    return capsys.readouterr().out.splitlines()


def test_there_is_a_short_example_for_each_audience():
    assert len(EXAMPLES) == 3
    assert all(sum(bool(line.strip()) for line in example.splitlines()) <= 12 for example in EXAMPLES)


def test_remember(capsys):
    simulated, theory = (float(line.split()[-1]) for line in run(EXAMPLES[0], capsys))
    assert simulated == pytest.approx(theory, abs=0.01)  # 50,000 neurons in all, N = 1,000


def test_learn_a_distribution(capsys):
    """Images that it has not seen are more likely than if their pixels were independent, by more than ln Z is in doubt.

    Biases alone, without a coupling, come up to independent pixels: twenty nats above a machine that has not learned.
    """
    names: dict = {}
    (printed,) = run(EXAMPLES[1], capsys, names)
    assert printed.startswith("(9, 64)")
    images, unseen = names["images"], eq.data.binarise(eq.data.digits().test_images, levels="binary")
    on = (images.sum(0) + 1) / (len(images) + 2)
    apart = float(np.mean(unseen @ np.log(on) + (1 - unseen) @ np.log(1 - on)))
    assert names["dreams"]["visible"].shape == (9, 64)
    before, after = (
        eq.log_likelihood(machine, unseen, "ais", chains=100, steps=500, key=0)
        for machine in (names["machine"], names["run"].network)
    )
    assert before.value == pytest.approx(-64 * np.log(2), abs=0.5)
    assert after.bracket[0] > apart + 5
    assert float(re.findall(r"log-likelihood (-?[\d.]+)", printed)[0]) > apart + 5  # of the images that it has seen


def test_learn_to_classify(capsys):
    assert float(run(EXAMPLES[2], capsys)[0].split()[-1]) < 0.12


def test_the_table_of_what_holds_is_that_of_the_results():
    """Of what was counted; how many results are of earlier code changes with every change of the code."""
    counted = [row.rsplit("|", 2)[0] for row in results.summary(report.entries(ROOT / "docs/results")).splitlines()]
    assert all(row in README for row in counted), "make results"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target

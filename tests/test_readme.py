"""The README's examples run, and say what they claim."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def run(example: str, capsys) -> list[str]:
    exec(compile(example, "README.md", "exec"), {})
    return capsys.readouterr().out.splitlines()


def test_there_are_four_short_examples():
    assert len(EXAMPLES) == 4
    assert all(sum(bool(line.strip()) for line in example.splitlines()) <= 12 for example in EXAMPLES)


def test_remember(capsys):
    simulated, theory = (float(line.split()[-1]) for line in run(EXAMPLES[0], capsys))
    assert simulated == pytest.approx(theory, abs=0.01)  # 50,000 neurons in all, N = 1,000


def test_learn_a_distribution(capsys):
    assert run(EXAMPLES[1], capsys)[0].startswith("(9, 64)")


def test_learn_to_classify(capsys):
    assert float(run(EXAMPLES[2], capsys)[0].split()[-1]) < 0.12


def test_bring_your_own_energy(capsys):
    assert run(EXAMPLES[3], capsys)[0].endswith("True")


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target

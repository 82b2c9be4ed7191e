"""The page says what the results say, needs nothing else, and cannot be broken by its contents."""

import base64
import json
import re
from html.parser import HTMLParser

import pytest

import tiny
from equilibria.app import report
from equilibria.papers.claims import at_most
from equilibria.papers.frame import folder_of, reproduce


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    for experiment, preset in [(tiny.experiment, "quick"), (tiny.experiment, "full"), (tiny.wrong, "quick")]:
        reproduce(experiment, preset, folder_of(experiment.id, preset, root))
    return root


@pytest.fixture(scope="module")
def page(folder):
    return report.write(folder).read_text()


class Reader(HTMLParser):
    """Checks that elements nest, and collects what the page points to."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[name] for name in ("href", "src") if name in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_every_result_has_a_section_and_a_link_to_it(page):
    reader = read(page)
    assert reader.ids == ["tiny-line-full", "tiny-line-quick", "tiny-wrong-quick"]
    assert [link for link in reader.links if link.startswith("#")] == [f"#{id}" for id in reader.ids]


def test_the_page_needs_no_other_file_and_no_script(page):
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in read(page).links)
    assert not re.search(r"<script|<link|@import|url\(|https?:", page)


def test_the_figures_are_those_on_disk(page, folder):
    pictures = [link.partition(",")[2] for link in read(page).links if link.startswith("data:")]
    on_disk = [path.read_bytes() for path in sorted(folder.rglob("figure.png"))]
    assert [base64.b64decode(picture) for picture in pictures] == on_disk


def test_claims_verdicts_and_commands_are_told(page):
    text = " ".join(read(page).text)
    assert "5 of 6 claims held, in 3 figures." in text
    assert text.count("✓ held") == 5
    assert text.count("✗ not held") == 1
    assert "equilibria reproduce tiny/line --preset full" in text
    assert "4 errors" in text
    assert "seed 3" in text


def test_everything_is_escaped():
    attack = "<script>alert('\"&')</script>"
    claim = at_most(attack, source=attack, expected=1, measured=float("nan"), tolerance=1, reason=attack)
    made = {"preset": attack, "seconds": 1.0, "seed": attack, "device": attack}
    page = report.render([report.Entry(attack, attack, [claim], b"", made)])
    assert "<script" not in page
    assert read(page).text.count(attack) >= 4


def test_a_folder_without_results_says_so(tmp_path):
    assert "Nothing has been reproduced yet." in report.write(tmp_path / "new").read_text()


@pytest.mark.parametrize("broken", ["config.json", "figure.png", "claims.json"])
def test_an_incomplete_result_is_named(tmp_path, broken):
    reproduce(tiny.experiment, "quick", tmp_path / "mine")
    if broken == "claims.json":
        (tmp_path / "mine" / broken).write_text(json.dumps({"id": "x"}))
    else:
        (tmp_path / "mine" / broken).unlink()
    with pytest.raises(ValueError, match="mine: not a complete result"):
        report.write(tmp_path)

"""The page says what the results say, needs nothing else, and cannot be broken by its contents."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tiny
from equilibria import files
from equilibria.app import report, results
from equilibria.papers import code, find
from equilibria.papers.claims import at_most, not_testable
from equilibria.papers.frame import folder_of, plain, reproduce


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    for experiment, preset in [(tiny.experiment, "quick"), (tiny.experiment, "paper"), (tiny.wrong, "quick")]:
        reproduce(experiment, preset, folder_of(experiment.id, preset, root))
    return root


@pytest.fixture(scope="module")
def page(folder):
    return report.write(folder).read_text()


class Reader(HTMLParser):
    """Checks that elements nest, and collects what the page points to."""

    VOID = frozenset({"meta", "br", "img", "input"})

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
    assert reader.ids == ["tiny-line-paper", "tiny-line-quick", "tiny-wrong-quick"]
    assert [link for link in reader.links if link.startswith("#")] == [f"#{id}" for id in reader.ids]


def test_the_page_needs_no_other_file_and_no_script(page):
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in read(page).links)
    assert not re.search(r"<script|<link|@import|url\(|https?:(?!//127\.0\.0\.1:8017/#)", page)


def test_the_figures_are_those_on_disk(page, folder):
    pictures = [link.partition(",")[2] for link in read(page).links if link.startswith("data:")]
    on_disk = [path.read_bytes() for path in sorted(folder.rglob("figure.png"))]
    assert [base64.b64decode(picture) for picture in pictures] == on_disk


def test_claims_verdicts_and_commands_are_told(page):
    text = " ".join(read(page).text)
    assert "The papers' claims: 2 held, 1 not held, 3 not testable. Ours: 3 held. In 3 figures." in text
    assert text.count("✓ held") == 5
    assert text.count("✗ not held") == 1
    assert text.count("– not testable") == 3
    assert "equilibria reproduce tiny/line --preset paper" in text
    assert "4 errors" in text
    assert "seed 3" in text
    assert "between the points nobody looks" in text


def test_papers_and_ours_stand_apart_and_small_versions_are_marked(page):
    reader = read(page)
    text = " ".join(reader.text)
    assert [text.count(head) for head in ("The paper says", "We say")] == [3, 3]
    assert "2 marked quick: each a small version, of another size than the paper's." in text
    assert text.count("Quick: a small version") == 2
    assert text.count("What differs from the paper") == text.count("3 points, not 20") == 1


def test_a_result_of_earlier_code_is_said_to_be_stale(tmp_path):
    reproduce(tiny.experiment, "paper", tmp_path / "mine")
    made = json.loads((tmp_path / "mine" / "config.json").read_text())
    for change, said in ((made | {"code": "abc"}, "(abc)"), ({**made, "preset": "full"}, "its preset full")):
        if "abc" not in said:
            change.pop("code")
        (tmp_path / "mine" / "config.json").write_text(json.dumps(change))
        text = report.write(tmp_path).read_text()
        assert "1 stale: made by earlier code than this." in text
        assert said in text
        assert "--preset paper" in text


def test_the_page_grows_and_says_what_is_left_out(folder):
    page = report.write(folder, waiting=["tiny/later"], lacking={"tiny/never": "no data, <none>"}).read_text()
    assert 'http-equiv="refresh"' in page
    text = " ".join(read(page).text)
    assert "1 figure still to come" in text
    assert "no data, <none>" in text
    assert 'http-equiv="refresh"' not in report.write(folder).read_text()


def test_everything_is_escaped():
    attack = "<script>alert('\"&')</script>"
    claim = at_most(attack, source=attack, expected=1, measured=float("nan"), tolerance=1, reason=attack)
    made = {"preset": attack, "seconds": 1.0, "seed": attack, "device": attack}
    made["differs"] = [attack]
    mine = not_testable(attack, source=attack, reason=attack, quote=attack, ours=True)
    entry = report.Entry(attack, attack, [claim, mine], b"", made, caption=attack, stale=attack)
    page = report.render([entry], lacking={attack: attack})
    assert "<script" not in page
    assert "".join(read(page).text).count(attack) >= 14


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


def test_a_result_of_another_preset_is_said_to_be_stale(tmp_path):
    id = "agliari2024/retrieval"
    made = {"preset": "quick", "code": code.digest(id), "config": plain(find(id).presets["quick"])}
    assert report._stale(id, made) == ""
    assert "other numbers" in report._stale(id, made | {"config": made["config"] | {"size": 3}})


def test_results_of_code_that_gives_the_same_numbers_are_not_stale(tmp_path, monkeypatch):
    def made(digest, place, preset, **changes):
        monkeypatch.setattr(code, "digest", lambda id: digest)
        found = reproduce(tiny.experiment, preset, tmp_path / place / "tiny/line" / preset)
        for name, value in changes.items():
            files.save_dataset(found.folder / "result.nc", found.dataset.assign({name: found.dataset[name] + value}))

    made("a", "kept", "paper")
    made("a", "before", "quick")
    made("b", "other", "quick", y=1e-6)
    assert results.compare(tmp_path / "kept", tmp_path / "before", tmp_path / "other") == []
    assert report.entries(tmp_path / "kept")[0].stale == "made by earlier code (a)"
    made("b", "after", "quick")
    assert results.compare(tmp_path / "kept", tmp_path / "other", tmp_path / "after") == []  # not by the code of "a"
    assert results.compare(tmp_path / "kept", tmp_path / "before", tmp_path / "after") == ["tiny/line"]
    (entry,) = report.entries(tmp_path / "kept")
    assert (entry.stale, entry.made["code"], entry.made["same"]) == ("", "a", "b")
    again = reproduce(tiny.experiment, "paper", tmp_path / "kept/tiny/line/paper")
    assert (again.cached, again.stale) == (True, False)
    assert report.entries(tmp_path / "kept")[0].made["same"] == "b"
    made("c", "later", "quick")
    assert results.compare(tmp_path / "kept", tmp_path / "after", tmp_path / "later") == ["tiny/line"]


def test_the_table_of_kept_results_counts_and_tells_stale_ones_apart(tmp_path):
    reproduce(tiny.experiment, "paper", tmp_path / "tiny/line/paper")
    entry = report.entries(tmp_path)[0]._replace(id="huang2019/line")
    entry.made["code"] = "abc"
    fresh = results.table([entry])
    assert "The papers' claims: 1 held, 1 not testable. Ours: 1 held." in fresh
    assert "| 1 held, 1 not testable | 1 held |" in fresh
    assert "stale" not in fresh
    later = results.table([entry._replace(stale="made by earlier code (abc)")])
    assert "1 of 1 results are stale" in later
    assert ", stale |" in later
    del entry.made["code"]
    old = results.table([entry._replace(stale="made by earlier code")])
    assert "earlier preset" in old
    assert "The papers' claims" not in old


def test_the_table_in_the_documentation_is_that_of_the_results():
    root = Path(__file__).parents[2] / "docs" / "results"
    table = (root / "README.md").read_text()
    for entry in report.entries(root):
        (row,) = [line for line in table.splitlines() if f"[{entry.id}]" in line]
        for ours in (False, True):
            assert results.verdicts(entry, ours=ours) in row


def test_a_figure_links_to_the_room_that_shows_it_live():
    assert '<a href="http://127.0.0.1:8017/#phases">' in report._live("agliari2024/ags")
    assert report._live("tiny/line") == ""


def test_the_page_has_the_style_of_the_lab(tmp_path):
    """Colours by day and night and type are one file, which the lab serves and the report holds."""
    from equilibria.app.lab.server import STATIC

    house = (STATIC / "house.css").read_text()
    assert "prefers-color-scheme: dark" in house
    assert house in report.write(tmp_path, waiting=["agliari2024/ags"]).read_text()

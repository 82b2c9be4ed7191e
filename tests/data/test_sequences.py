"""FASTA files, letters and blocks of neurons."""

import numpy as np
import pytest

import equilibria as eq
from equilibria.data import sequences


def test_letters_numbers_and_blocks_go_round(tmp_path):
    rng = np.random.default_rng(0)
    states = rng.integers(-1, 21, (7, 200))
    names = tuple(f"sequence {number}" for number in range(7))
    given = eq.data.Sequences(states, names, sequences.ALPHABETS["protein"])
    path = eq.data.write_fasta(tmp_path / "a.fasta", given)
    assert max(map(len, path.read_text().splitlines())) == 80
    found = eq.data.read_fasta(path)
    np.testing.assert_array_equal(found.states, states)
    assert found.names == names
    rows = found.one_hot()
    assert rows.shape == (7, 200 * 21)
    np.testing.assert_array_equal(np.isnan(rows).reshape(7, 200, 21).all(-1), states == -1)
    np.testing.assert_array_equal(eq.data.states_of(rows, 21), states)


def test_small_letters_points_and_blank_lines_are_read():
    found = eq.data.parse_fasta("; a remark\n>a b\nac.\n\n G\n>c\nA C-T\n", "dna")
    assert found.letters() == ["AC-G", "AC-T"]
    assert found.names == ("a b", "c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (">a\nACZ\n", r"sequences: got 'Z' at site 2 of sequence 'a'; allowed: the letters -ACGT"),
        (">a\nACG\n>b\nAC\n", r"sequences: got 2 letters in sequence 'b', 3 in sequence 'a'; allowed: aligned"),
        ("ACG\n", r"text: got letters before any name, in line 1"),
        ("", r"text: got no sequence"),
        (">a\n", r"sequences: got none"),
        (">a\nA\u2019\n", r"sequences: got '\u2019' at site 1"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(text, message):
    with pytest.raises(ValueError, match=message):
        eq.data.parse_fasta(text, "dna")


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "a.fasta").write_bytes(b">a\n\xff\n")
    with pytest.raises(ValueError, match=r"a.fasta: got a byte that is no letter, at 3"):
        eq.data.read_fasta(tmp_path / "a.fasta")


def test_states_outside_are_refused():
    with pytest.raises(ValueError, match=r"states: got 3; allowed: whole numbers from 0 to 2"):
        eq.data.one_hot([[3]], 3)
    with pytest.raises(ValueError, match=r"states: got 0.5"):
        eq.data.one_hot([[0.5]], 3)
    with pytest.raises(ValueError, match=r"rows: got shape \(1, 4\)"):
        eq.data.states_of(np.zeros((1, 4)), 3)


def test_weights_count_relatives_together(monkeypatch):
    rng = np.random.default_rng(1)
    families = rng.integers(0, 21, (5, 50))
    states = np.repeat(families, [1, 2, 3, 4, 5], axis=0)
    expected = np.repeat(1 / np.arange(1, 6), [1, 2, 3, 4, 5])
    np.testing.assert_allclose(eq.data.sequence_weights(states), expected)
    monkeypatch.setattr(sequences, "_TOGETHER", 100)
    np.testing.assert_allclose(eq.data.sequence_weights(states), expected)

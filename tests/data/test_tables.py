"""Tables as people have them: every format, separators, names, IDs, missing cells, and errors that say where."""

import gzip
import io
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import equilibria as eq
from equilibria.data import read_table
from equilibria.data.tables import raw
from equilibria.data.tables import text as text_files
from equilibria.data.tables.reading import read_column

BITS = np.random.default_rng(0).integers(0, 2, (12, 5))
NAMES = ["alpha", "beta", "gamma", "delta", "epsilon"]


def text(content, name="t.csv", **options):
    return read_table(io.BytesIO(content.encode() if isinstance(content, str) else content), name=name, **options)


def lines(separator=",", names=NAMES, rows=BITS):
    body = [separator.join(map(str, row)) for row in rows]
    return "\n".join([separator.join(names), *body] if names else body) + "\n"


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", " ", ", "])
@pytest.mark.parametrize("names", [NAMES, None])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "windows line ends"])
def test_separators_names_and_encodings_are_found(separator, names, encoding):
    content = lines(separator, names)
    content = content.replace("\n", "\r\n").encode() if encoding.startswith("w") else content.encode(encoding)
    table = text(content)
    np.testing.assert_array_equal(table.values, BITS)
    assert table.values.dtype == np.uint8
    assert (table.names, table.named) == (tuple(names or "12345"), names is not None)
    assert table.kind == "bits"


def test_a_first_line_with_a_missing_cell_is_an_example():
    """With a byte-order mark or an NA in it, it was taken for names, and lost."""
    table = text("﻿NA,0.5\n1,0.25\n0,0.125\n", missing="keep")
    np.testing.assert_array_equal(table.values, [[np.nan, 0.5], [1, 0.25], [0, 0.125]])


def test_whether_the_first_line_holds_names_can_be_said():
    assert text("1,2\n3,4\n", header=True).names == ("1", "2")
    assert text("0,1,2,3\n1,0,0,1\n").names == ("0", "1", "2", "3")  # as pandas writes columns without names
    assert len(text("0,1,2,3\n1,0,0,1\n", header=False).values) == 2
    with pytest.raises(ValueError, match=r"'a' in line 1, column '1'"):
        text("a,b\n1,2\n", header=False)


def test_names_in_a_comment_as_numpy_writes_them(tmp_path):
    np.savetxt(tmp_path / "t.txt", BITS, header=" ".join(NAMES), fmt="%d")
    table = read_table(tmp_path / "t.txt")
    assert table.names == tuple(NAMES)
    np.testing.assert_array_equal(table.values, BITS)


def test_names_of_rows_as_r_writes_them():
    table = text("alpha beta\nr1 0 1\nr2 1 1\nr3 1 0\n")
    assert table.names == ("alpha", "beta")
    assert table.ids.tolist() == ["r1", "r2", "r3"]
    np.testing.assert_array_equal(table.values, [[0, 1], [1, 1], [1, 0]])


def test_a_decimal_comma_is_understood():
    np.testing.assert_array_equal(text("a;b\n1,5;2\n-0,25;3\n").values, [[1.5, 2], [-0.25, 3]])


def test_gzip_is_unpacked_up_to_a_limit(monkeypatch):
    packed = gzip.compress(lines().encode())
    np.testing.assert_array_equal(text(packed, "t.csv.gz").values, BITS)
    monkeypatch.setattr("equilibria.data.tables.text.MOST_BYTES", 20)
    monkeypatch.setattr(raw, "MOST_BYTES", 20)
    with pytest.raises(ValueError, match=r"unpacked; allowed: up to 0 GiB, more with allow_large=True"):
        text(packed, "t.csv.gz")
    np.testing.assert_array_equal(text(packed, "t.csv.gz", allow_large=True).values, BITS)


IDS = {
    "words": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"],
    "whole numbers": [881, 12, 37, 45, 51, 60, 77, 83, 92, 101, 110, 7],
    "rows counted": list(range(12)),
}


@pytest.mark.parametrize("name", ["id", "sample_id", "Patient", "", "Unnamed: 0", "barcode", "cellID"])
@pytest.mark.parametrize("kind", IDS)
def test_an_id_is_found_and_left_out_with_a_note(name, kind):
    frame = pd.DataFrame({name: IDS[kind], **{title: BITS[:, place] for place, title in enumerate(NAMES)}})
    table = text(frame.to_csv(index=False))
    assert table.names == tuple(NAMES)
    assert table.dropped == {name: "an ID"}
    assert table.ids.tolist() == IDS[kind]
    assert any("is left out: an ID" in note for note in table.notes)
    kept = text(frame.to_csv(index=False), id_column=None) if kind != "words" else None
    assert kept is None or kept.names == (name, *NAMES)


def test_a_word_in_each_row_without_names_is_an_id_too():
    table = text("\n".join(f"cell{row},{row % 2},1,0" for row in range(5)))
    assert table.names == ("2", "3", "4")
    assert table.ids[3] == "cell3"


def test_a_feature_is_not_taken_for_an_id():
    frame = pd.DataFrame({"dose": [881, 12, 37, 45, 51, 60, 77, 83, 92, 101, 110, 7], "x": np.linspace(0, 1, 12)})
    table = text(frame.to_csv(index=False))
    assert table.names == ("dose", "x")
    assert "if it is an ID, say id_column=dose" in table.notes[0]  # said, not decided
    assert text(frame.rename(columns={"dose": "lipid"}).to_csv(index=False)).names == ("lipid", "x")
    assert text("id,a\n0,1\n1,1\n").names == ("id", "a")  # bits, whatever they are called
    assert text("\n".join(str(row) for row in range(20))).values.shape == (20, 1)  # never the only column


def test_columns_are_chosen_by_name_and_range():
    content = lines()
    assert text(content, columns=["gamma", "alpha"]).names == ("gamma", "alpha")
    np.testing.assert_array_equal(text(content, columns=["gamma", "alpha"]).values, BITS[:, [2, 0]])
    assert text(content, columns=["beta:delta"]).names == ("beta", "gamma", "delta")
    assert text(content, drop=["delta:"]).names == ("alpha", "beta", "gamma")
    assert text(content, id_column="beta").names == ("alpha", "gamma", "delta", "epsilon")
    assert text(lines(names=None), columns=["2:3"]).names == ("2", "3")
    with pytest.raises(
        ValueError, match=r"columns: got 'gama', which t.csv does not have; allowed: columns such as 'gamma'"
    ):
        text(content, columns=["gama"])
    with pytest.raises(ValueError, match=r"at least one feature"):
        text(content, drop=["alpha:"])


@pytest.mark.parametrize("cell", ["", "NA", "nan", "NaN", "?", "null", "N/A"])
def test_missing_cells_are_refused_with_their_place_or_kept(cell):
    content = f"a,b\n0.5,1\n\n0.25,{cell}\n{cell},{cell}\n"
    with pytest.raises(ValueError, match=r"a missing cell in line 4, column 'b' of t\.csv \(3 in all\)"):
        text(content)
    np.testing.assert_array_equal(text(content, missing="keep").values, [[0.5, 1], [0.25, np.nan], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "which is empty"),
        ("a,b\n", "nothing below"),
        ("a,b\n1,2\n1,red\n", "'red' in line 3, column 'b' of t.csv; allowed: numbers; .* drop=b"),
        ("a,b\n1,2\n1,2,3\n1,2\n", "line 3 with 3 cells; allowed: 2 cells in every line"),
        ("a,b,c\n1,2,3\n1,2\n1,2,3\n", "line 3 with 2 cells"),
        ("a,b\n1,2\n1,inf\n", "inf in line 3, column 'b' of t.csv; allowed: finite numbers"),
        (b"\x00\x01\x02", "which is no text"),
    ],
)
def test_bad_text_says_where(content, message):
    with pytest.raises(ValueError, match=message):
        text(content)


def test_frames_of_pandas_and_polars_keep_their_names():
    polars = pytest.importorskip("polars")
    columns = {name: BITS[:, place] for place, name in enumerate(NAMES)}
    for frame in (pd.DataFrame(columns), polars.DataFrame(columns), polars.DataFrame(columns).lazy()):
        table = read_table(frame)
        assert table.names == tuple(NAMES)
        np.testing.assert_array_equal(table.values, BITS)
    frame = pd.DataFrame(columns, index=[f"g{row}" for row in range(12)])
    assert read_table(frame).ids[0] == "g0"
    frame = pd.DataFrame(
        {"a": pd.array([1, None, 0], dtype="Int64"), "b": pd.array([True, False, None], dtype="boolean")}
    )
    np.testing.assert_array_equal(read_table(frame, missing="keep").values, [[1, 1], [np.nan, 0], [0, np.nan]])
    frame = polars.DataFrame({"a": [1, None], "b": ["x", "y"]})
    with pytest.raises(ValueError, match=r"'x' in row 1, column 'b' of the frame"):
        read_table(frame, missing="keep")


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame(BITS, columns=NAMES, index=[f"g{row}" for row in range(12)]).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert (table.names, table.ids[1]) == (tuple(NAMES), "g1")
    np.testing.assert_array_equal(table.values, BITS)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"bad.parquet, which cannot be read"):
        read_table(tmp_path / "bad.parquet")


def annotated(path, matrix):
    """A file as AnnData writes it: X dense or sparse, names of genes and of cells."""
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        if sparse.issparse(matrix):
            group = file.create_group("X")
            group.attrs.update({"encoding-type": f"{matrix.format}_matrix", "shape": matrix.shape})
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        else:
            file["X"] = matrix
        for axis, names in (("obs", [f"cell{row}" for row in range(12)]), ("var", NAMES)):
            group = file.create_group(axis)
            group.attrs["_index"] = "_index"
            group["_index"] = names
        file["layers/counts"] = 3 * BITS
        file["obs/batch"] = np.arange(12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_anndata_dense_and_sparse(tmp_path, form):
    annotated(tmp_path / "t.h5ad", form(BITS))
    table = read_table(tmp_path / "t.h5ad")
    np.testing.assert_array_equal(table.values, BITS)
    assert (table.names, table.ids[3]) == (tuple(NAMES), "cell3")
    np.testing.assert_array_equal(read_table(tmp_path / "t.h5ad", array="layers/counts").values, 3 * BITS)


def test_words_of_each_cell_are_read_as_anndata_keeps_them(tmp_path):
    """By category, in any letters, or with a mask; what is missing is said, and codes beyond the categories are refused."""
    annotated(path := tmp_path / "t.h5ad", BITS)
    words = np.array(["B", "naïve T", "B", "NK"] * 3)
    categories, codes = np.unique(words, return_inverse=True)
    with h5py.File(path, "a") as file:
        file["obs/plain"] = [word.encode() for word in words]
        file["obs/type/categories"], file["obs/type/codes"] = categories.tolist(), codes.astype(np.int8)
        file["obs/dose/values"], file["obs/dose/mask"] = np.arange(12), np.zeros(12, bool)
    for name in ("obs/plain", "obs/type"):
        np.testing.assert_array_equal(read_column(path, 12, array=name), words)
    np.testing.assert_array_equal(read_column(path, 12, array="obs/dose"), np.arange(12))
    for name, place, value, message in (
        ("obs/type/codes", 4, -1, "got a missing cell in row 5"),
        ("obs/dose/mask", 6, True, "got a missing cell in row 7"),
        ("obs/type/codes", 4, 9, "t.h5ad, which cannot be read"),
    ):
        with h5py.File(path, "a") as file:
            file[name][place] = value
        with pytest.raises(ValueError, match=message):
            read_column(path, 12, array=name.rpartition("/")[0])


def test_sparse_indices_beyond_the_matrix_are_refused(tmp_path):
    annotated(tmp_path / "t.h5ad", sparse.csr_array(BITS))
    with h5py.File(tmp_path / "t.h5ad", "a") as file:
        file["X/indices"][0] = 10**6
    with pytest.raises(ValueError, match=r"t.h5ad, which cannot be read"):
        read_table(tmp_path / "t.h5ad")


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("index", [10**6, -5])
def test_sparse_indices_beyond_the_matrix_are_refused_in_npz(tmp_path, form, index):
    """They were written to wherever they led, which ended the process."""
    matrix = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}[form](np.eye(2))
    matrix = matrix.tobsr((1, 1)) if form == "bsr" else matrix
    parts = {"data": matrix.data, "indices": np.array([0, index], np.int32), "indptr": matrix.indptr}
    np.savez(tmp_path / "t.npz", **parts, format=np.array(form.encode()), shape=matrix.shape)
    with pytest.raises(ValueError, match=r"t.npz, which cannot be read \((column )?ind"):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize("part", ["obs", "var", "obs/_index", "X/indices"])
def test_no_part_of_a_table_is_read_from_another_file(tmp_path, part):
    for name in ("t.h5ad", "secret.h5ad"):
        annotated(tmp_path / name, sparse.csr_array(BITS))
    with h5py.File(tmp_path / "t.h5ad", "a") as file:
        del file[part]
        file[part] = h5py.ExternalLink("secret.h5ad", f"/{part}")
    with pytest.raises(ValueError, match=r"is a link to another file, secret.h5ad"):
        read_table(tmp_path / "t.h5ad")


@pytest.mark.parametrize("part", ["shape", "barcodes", "features", "features/name"])
def test_no_part_of_a_10x_matrix_is_read_from_another_file(tmp_path, part):
    matrix = sparse.csc_array(BITS.T)
    for name in ("t.h5", "secret.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            for kind in ("data", "indices", "indptr", "shape"):
                file[f"matrix/{kind}"] = getattr(matrix, kind)
            file["matrix/barcodes"] = [f"cell{number}".encode() for number in range(len(BITS))]
            file["matrix/features/name"] = [name.encode() for name in NAMES]
    np.testing.assert_array_equal(read_table(tmp_path / "t.h5").values, BITS)
    with h5py.File(tmp_path / "t.h5", "a") as file:
        del file[f"matrix/{part}"]
        file[f"matrix/{part}"] = h5py.ExternalLink("secret.h5", f"/matrix/{part}")
    with pytest.raises(ValueError, match=r"is a link to another file, secret.h5"):
        read_table(tmp_path / "t.h5")


def test_links_inside_a_group_start_at_the_top_of_the_file(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["rows"] = BITS
        file["group/beside"] = h5py.SoftLink("/rows")
    np.testing.assert_array_equal(read_table(tmp_path / "t.h5", array="group/beside").values, BITS)


def test_links_out_of_a_file_are_refused(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["rows"] = BITS
    np.asarray(BITS, float).tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["good"] = BITS
        file["soft"] = h5py.SoftLink("/good")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["external"] = h5py.ExternalLink("secret.h5", "/rows")
        file["inner"] = h5py.SoftLink("/external")
        file.create_dataset("raw", BITS.shape, "f8", external=[(str(tmp_path / "secret.bin"), 0, 8 * BITS.size)])
        layout = h5py.VirtualLayout(BITS.shape, BITS.dtype)
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "rows", BITS.shape)
        file.create_virtual_dataset("virtual", layout)
    np.testing.assert_array_equal(read_table(tmp_path / "t.h5", array="soft").values, BITS)
    for array, message in {
        "external": "is a link to another file, secret.h5",
        "inner": "another file",
        "dangling": "is a link to /nowhere, which is not there",
        "raw": "whose numbers are in another file",
        "virtual": "whose numbers are in another file",
        "none": "array: got 'none', which .* does not hold; allowed: one of dangling, external, good",
    }.items():
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / "t.h5", array=array)
    with pytest.raises(ValueError, match=r"array: got none, for t.h5 with several"):
        read_table(tmp_path / "t.h5")


def test_a_small_file_with_a_large_table_is_refused(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("rows", (10**6, 10**6), "f8", chunks=(100, 100), compression="gzip")
    np.savez_compressed(tmp_path / "t.npz", rows=np.zeros((1000, 1000)))
    with pytest.raises(
        ValueError, match=r"takes 7,450.6 GiB unpacked; allowed: up to 2 GiB, more with allow_large=True"
    ):
        read_table(tmp_path / "t.h5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw, "MOST_BYTES", 10**6)
        with pytest.raises(ValueError, match=r"unpacked; allowed"):
            read_table(tmp_path / "t.npz")
        assert read_table(tmp_path / "t.npz", allow_large=True).values.shape == (1000, 1000)
        with pytest.raises(ValueError, match=r"unpacked; allowed"):
            read_table(sparse.csr_array((10**4, 10**4)))


def test_a_text_that_is_packed_too_well_is_refused(monkeypatch):
    for module in (raw, text_files):
        monkeypatch.setattr(module, "MOST_BYTES", 10**5)
    packed = gzip.compress(b"1,0\n" * 10**5)
    with pytest.raises(ValueError, match=r"t.csv.gz, whose table takes .* unpacked; allowed: up to .* allow_large"):
        text(packed, "t.csv.gz")
    assert text(packed, "t.csv.gz", allow_large=True).values.shape == (10**5, 2)


def test_arrays_in_files(tmp_path):
    np.savez(tmp_path / "two.npz", rows=BITS, other=np.ones(3))
    np.testing.assert_array_equal(read_table(tmp_path / "two.npz", array="rows").values, BITS)
    with pytest.raises(
        ValueError, match=r"array: got none, for two.npz with several; allowed: array=NAME, one of rows, other"
    ):
        read_table(tmp_path / "two.npz")
    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_array(BITS))
    np.testing.assert_array_equal(read_table(tmp_path / "sparse.npz").values, BITS)
    np.save(tmp_path / "records.npy", np.array([(1, 0.5), (2, 0.25)], [("a", "i4"), ("b", "f8")]))
    assert read_table(tmp_path / "records.npy").names == ("a", "b")
    np.save(tmp_path / "pictures.npy", np.zeros((4, 3, 2)))
    assert read_table(tmp_path / "pictures.npy").image_shape == (3, 2)


@pytest.mark.parametrize("kind", [">f8", ">i4", ">f2", "<u8", "?"])
def test_numbers_of_every_type_and_order(tmp_path, kind):
    np.save(tmp_path / "data.npy", BITS.astype(kind))
    values = read_table(tmp_path / "data.npy").values
    assert values.dtype.isnative
    np.testing.assert_array_equal(values, BITS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.npy", b"", "empty.npy, which is empty"),
        ("cut.npy", b"\x93NUMPY", "cut.npy, which cannot be read"),
        ("empty.npz", b"", "empty.npz, which cannot be read"),
        ("no.npz", b"this is no zip", r"no.npz, which cannot be read \(File is not a zip file\); allowed: a .npz file"),
        ("no.h5", b"this is no HDF5", "no.h5, which cannot be read"),
        ("no.xlsx", b"PK", "no.xlsx; allowed: a file '.csv'.*; save a spreadsheet as .csv"),
        ("no", b"1", "no; allowed: a file '.csv'"),
        ("signs.csv", b'id,"a",\t1,0\x85NA\nx2,\x1c3,true\n', "signs.csv, .* that read as a table of .*without signs"),
        ("long.csv", b"a,b\n" + b"x" * 200_000 + b",1\n", "long.csv, which cannot be read .field larger"),
        (
            "huge.csv",
            b"a,b\n1" + b"0" * 400 + b",1\n2,3\n",
            "got inf in line 2, column 'a' of .*huge.csv; allowed: finite",
        ),
    ],
)
def test_files_that_are_something_else(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


def test_what_is_no_table_of_numbers(tmp_path):
    np.save(tmp_path / "data.npy", BITS.astype(np.longdouble))
    with pytest.raises(ValueError, match=r"with values of type float128; allowed: numbers of up to 64 bits"):
        read_table(tmp_path / "data.npy")
    np.save(tmp_path / "data.npy", np.array([[None, {}]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"data.npy, which cannot be read"):
        read_table(tmp_path / "data.npy")
    with pytest.raises(ValueError, match=r"with shape \(3,\); allowed: a table"):
        read_table(np.zeros(3))
    with pytest.raises(ValueError, match=r"type <U1; allowed: numbers"):
        read_table([["a", "b"]])
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (40000, 40000)})
    with pytest.raises(ValueError, match=r"whose header speaks of 12,800,000,000 bytes where there are 128"):
        read_table(header, name="bomb.npy")


def test_whole_numbers_beyond_32_bits_do_not_wrap(tmp_path):
    np.save(tmp_path / "data.npy", np.array([[3_000_000_000, 1], [0, 5]]))
    np.testing.assert_array_equal(read_table(tmp_path / "data.npy").values, [[3e9, 1], [0, 5]])
    machine = eq.rbm(1, 1, visible=eq.Gaussian(), key=0)
    data = np.array([[3_000_000_000]])
    for prepared in (
        eq.cd(1).prepared(machine, data)["visible"],
        eq.independent_site_biases(machine, data).layers[0].bias,
    ):
        assert float(prepared[0].sum() if prepared.ndim > 1 else prepared[0]) > 1e9


def test_pictures_are_found_where_they_are():
    digits = eq.data.digits().train_images
    assert read_table(digits).image_shape == (8, 8)
    flat = digits.reshape(len(digits), -1)
    assert read_table(flat).image_shape == (8, 8)
    assert read_table(flat[:, np.random.default_rng(0).permutation(64)]).image_shape is None
    assert read_table(np.random.default_rng(0).integers(0, 2, (200, 64))).image_shape is None
    assert read_table(pd.DataFrame(flat, columns=[f"gene{i}" for i in range(64)])).image_shape is None
    assert read_table(pd.DataFrame(flat, columns=[f"pixel{i}" for i in range(64)])).image_shape == (8, 8)
    assert read_table(flat, image_shape=(4, 16)).image_shape == (4, 16)
    with pytest.raises(ValueError, match=r"product is 64"):
        read_table(flat, image_shape=(5, 5))


def attempt(content, name):
    """The table, or the words in which it is refused; any other error is an error of the test."""
    try:
        return text(content, name, missing="keep"), None
    except ValueError as error:
        return None, str(error)


CELLS = st.sampled_from(["0", "1", "1.5", "-2e3", "NA", "", "word", "'", '"x"', " 3 ", "1,5", "inf", "é"])


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=0, max_size=6),
    separator=st.sampled_from([",", ";", "\t", " ", "|"]),
    cut=st.integers(0, 12),
)
def test_any_text_is_a_table_or_a_sentence(rows, separator, cut):
    content = "\n".join(separator.join(row) for row in rows).encode()
    content = content[: max(0, len(content) - cut)] if cut < 6 else content
    table, refusal = attempt(content, "t.csv")
    if refusal is None:
        assert table.values.shape[1] == len(table.names)
        assert not np.isinf(table.values).any()
    else:
        assert refusal.partition(":")[0] in ("data", "columns", "array")


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(["t.npy", "t.npz", "t.h5", "t.h5ad", "t.csv.gz"]),
    places=st.lists(st.integers(0, 10**6), max_size=4),
    cut=st.integers(0, 400),
)
def test_mutated_files_are_a_table_or_a_sentence(tmp_path_factory, name, places, cut):
    folder = tmp_path_factory.getbasetemp() / "good"
    if not folder.exists():
        folder.mkdir()
        np.save(folder / "t.npy", BITS)
        np.savez_compressed(folder / "t.npz", rows=BITS)
        with h5py.File(folder / "t.h5", "w") as file:
            file["rows"] = BITS
        annotated(folder / "t.h5ad", sparse.csr_array(BITS))
        (folder / "t.csv.gz").write_bytes(gzip.compress(lines().encode()))
    content = bytearray((folder / name).read_bytes())
    for place in places:
        content[place % len(content)] ^= 1 << place % 8
    del content[len(content) - cut if cut < 100 else len(content) :]
    _, refusal = attempt(bytes(content), name)
    assert refusal is None or refusal.partition(":")[0] in ("data", "columns", "array")


@pytest.mark.parametrize(
    ("content", "names", "rows"),
    [
        ("a,b\n#N/A,1\n0,1\n", ("a", "b"), [[np.nan, 1], [0, 1]]),  # a cell of a spreadsheet, and no comment
        ("a,b\n1,0\nnan ,1\n", ("a", "b"), [[1, 0], [np.nan, 1]]),
        ("0,1,\n1,1,\n", ("1", "2"), [[0, 1], [1, 1]]),
        ("a,b\n0,1,\n1,1,\n", ("a", "b"), [[0, 1], [1, 1]]),
        ("sep=;\na;b\n0;1\n1;1\n", ("a", "b"), [[0, 1], [1, 1]]),
        ("a,b\nTRUE,3\nFalse,4\n", ("a", "b"), [[1, 3], [0, 4]]),
        ("2019,2020,2021,2022\n0,1,1,0\n", ("2019", "2020", "2021", "2022"), [[0, 1, 1, 0]]),
        ("5,6,7,8\n4,9,1,2\n", ("1", "2", "3", "4"), [[5, 6, 7, 8], [4, 9, 1, 2]]),
        ("0110\n1011\n", ("1", "2", "3", "4"), [[0, 1, 1, 0], [1, 0, 1, 1]]),
        ("11\n10\n", ("1",), [[11], [10]]),
    ],
)
def test_texts_as_programs_write_them(content, names, rows):
    table = text(content, missing="keep")
    assert table.names == names
    np.testing.assert_array_equal(table.values, rows)


def test_lines_that_are_passed_over_are_told():
    table = text("# a,b\n0,1\n#1,1\n1,0\n")
    assert table.values.tolist() == [[0, 1], [1, 0]]
    assert table.notes == ("1 lines below the first one begin with # and are passed over",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n12%,1\n15%,0\n", r"'12%' in line 2, column 'a' of t\.csv; allowed: numbers"),
        ("a,b\n1,0\n*,1\n0,1\n1,1\n0,0\n", r"'\*' in line 3, column 'a' .*; allowed: numbers, and an empty cell or NA"),
        ("a,b\n1,0\n#DIV/0!,1\n", r"'#DIV/0!' in line 3, column 'a'"),
    ],
)
def test_what_is_no_number_is_never_passed_over(content, message):
    with pytest.raises(ValueError, match=message):
        text(content)


def test_dates_are_no_numbers():
    days = pd.date_range("2024-01-01", periods=12)
    assert read_table(pd.DataFrame({"day": days, "a": BITS[:, 0]})).dropped == {"day": "an ID"}
    for times in (days, pd.to_timedelta(np.arange(12), "s"), days.tz_localize("UTC")):
        with pytest.raises(ValueError, match=r"dates or times in column 't' of the frame; .* drop=t"):
            read_table(pd.DataFrame({"a": BITS[:, 0], "t": times}))


def test_columns_by_name_in_whatever_holds_them():
    columns = {"a": [0, 1], "b": [1, 1]}
    for source in (columns, [{"a": 0, "b": 1}, {"a": 1, "b": 1}]):
        assert read_table(source).names == ("a", "b")
    with pytest.raises(ValueError, match="columns of one length by name"):
        read_table({"a": [0, 1], "b": [1]})

    class AnnData(SimpleNamespace):
        """What one in memory has."""

    held = {"X": sparse.csr_array(BITS), "layers": {"counts": 2 * BITS}, "var_names": pd.Index(NAMES)}
    cells = AnnData(**held, obs_names=pd.Index([f"c{row}" for row in range(12)]))
    table = read_table(cells)
    assert (table.names, table.ids[0]) == (tuple(NAMES), "c0")
    np.testing.assert_array_equal(table.values, BITS)
    np.testing.assert_array_equal(read_table(cells, array="layers/counts").values, 2 * BITS)
    with pytest.raises(ValueError, match=r"array: got 'raw', which the AnnData does not hold; allowed: X, counts"):
        read_table(cells, array="raw")


def test_open_texts_and_single_names(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(lines())
    with path.open() as file:
        assert read_table(file).names == tuple(NAMES)
    assert read_table(path, columns="beta:delta").names == ("beta", "gamma", "delta")
    assert read_table(path, drop="beta").names == ("alpha", "gamma", "delta", "epsilon")
    with pytest.raises(ValueError, match=r"header: got 'no'; allowed: True where the first line holds names"):
        read_table(path, header="no")
    with pytest.raises(ValueError, match=r"a file without a name; .* say name='table\.csv'"):
        read_table(io.StringIO(lines()))


def test_an_error_about_missing_cells_says_what_this_reader_takes():
    with pytest.raises(ValueError, match="missing=keep"):
        text("a,b\n1,\n0,1\n")
    assert np.isnan(text("a,b\n1,\n0,1\n", missing="keep").values[0, 1])

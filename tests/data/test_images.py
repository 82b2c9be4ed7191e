import gzip
import hashlib
import os
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from equilibria.data import Images, binarise, digits, fashion_mnist, fetch, grey, images, mnist


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """No test sees the user's own cache or data, nor leaves the machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("EQUILIBRIA_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    for name in ("MNIST", "FASHION_MNIST"):
        monkeypatch.setattr(images, name, getattr(images, name)._replace(mirrors=()))
    return tmp_path


@pytest.fixture
def put(idx_bytes, tiny_mnist):
    """Write a tiny dataset into a folder."""

    def write(folder, *, shade=0, packed=True, **changed):
        folder.mkdir(parents=True)
        for file, array in {**tiny_mnist(shade), **changed}.items():
            content = idx_bytes(array)
            (folder / f"{file}.gz" if packed else folder / file).write_bytes(
                gzip.compress(content) if packed else content
            )
        return folder

    return write


class Mirror:
    """A web server on this machine that holds `files` and counts requests."""

    def __init__(self):
        self.files, self.requests = {}, Counter()
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.lstrip("/")
                mirror.requests[name] += 1
                content = mirror.files.get(name)
                self.send_response(404 if content is None else 200)
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def mirror():
    server = Mirror()
    yield server
    server.close()


@pytest.fixture
def published(monkeypatch, mirror, idx_bytes, tiny_mnist):
    """The tiny dataset as published on `mirror`, with digests of the unpacked files (MNIST) or packed (Fashion)."""
    plain = {file: idx_bytes(array) for file, array in tiny_mnist().items()}
    packed = {file: gzip.compress(content) for file, content in plain.items()}
    mirror.files = {f"{file}.gz": content for file, content in packed.items()}
    for name, files in (("MNIST", plain), ("FASHION_MNIST", packed)):
        source = getattr(images, name)
        digests = {file: hashlib.new(source.algorithm, content).hexdigest() for file, content in files.items()}
        monkeypatch.setattr(images, name, source._replace(mirrors=(mirror.url,), digests=digests))


def cached(home):
    return sorted(path.name for path in home.glob("cache/equilibria/*/*"))


# Files on this machine


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dataset", [mnist, fashion_mnist])
def test_reads_a_folder(dataset, packed, home, put, tiny_mnist):
    loaded = dataset(folder=put(home / "own", packed=packed))
    assert isinstance(loaded, Images)
    expected = tiny_mnist()
    files = (images.TRAIN_IMAGES, images.TRAIN_LABELS, images.TEST_IMAGES, images.TEST_LABELS)
    for array, file in zip(loaded, files, strict=True):
        assert array.dtype == np.uint8
        np.testing.assert_array_equal(array, expected[file])


def test_looks_in_the_folder_then_in_the_environment_then_in_the_cache(monkeypatch, home, put):
    def shade(**where):
        return mnist(**where).train_images[0, 0, 0]

    put(home / "cache" / "equilibria" / "mnist", shade=1)
    assert shade() == 1
    monkeypatch.setenv("EQUILIBRIA_DATA", str(home / "data"))
    assert shade() == 1  # nothing there yet
    put(home / "data" / "mnist", shade=2)
    assert shade() == 2
    assert shade(folder=str(put(home / "own", shade=3))) == 3
    (home / "data" / "mnist" / f"{images.TEST_LABELS}.gz").unlink()
    assert shade() == 1  # not the whole dataset


def test_a_folder_without_the_files_is_refused_even_if_the_cache_has_them(home, put):
    put(home / "cache" / "equilibria" / "mnist")
    with pytest.raises(FileNotFoundError, match=r"mnist: folder '.*empty' must hold train-images-idx3-ubyte, "):
        mnist(folder=home / "empty")


@pytest.mark.parametrize(
    ("file", "array", "message"),
    [
        (images.TRAIN_IMAGES, np.zeros((5, 27, 28), np.uint8), r"got uint8 of shape \(5, 27, 28\)"),
        (images.TRAIN_IMAGES, np.zeros((5, 28, 28), np.int32), "got int32"),
        (images.TRAIN_LABELS, np.zeros(4, np.uint8), r"got uint8 of shape \(4,\); allowed: uint8 of shape \(5,\)"),
        (images.TEST_LABELS, np.full(3, 10, np.uint8), "got the label 10; allowed: labels from 0 to 9"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(home, put, file, array, message):
    with pytest.raises(ValueError, match=f"^{file}: {message}"):
        mnist(folder=put(home / "own", **{file: array}))


def test_a_broken_file_is_named(home, put):
    folder = put(home / "own")
    path = folder / f"{images.TEST_IMAGES}.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"^{images.TEST_IMAGES}: got broken gzip"):
        mnist(folder=folder)


@pytest.mark.parametrize("dataset", [mnist, fashion_mnist])
@pytest.mark.usefixtures("published")
def test_other_data_than_the_published_are_used_only_with_a_warning(monkeypatch, home, dataset, put, recwarn):
    for place, shade in (("published", 0), ("another", 1)):
        put(home / place / dataset.__name__, shade=shade)
    monkeypatch.setenv("EQUILIBRIA_DATA", str(home / "published"))
    dataset()
    assert not recwarn.list
    monkeypatch.setenv("EQUILIBRIA_DATA", str(home / "another"))
    with pytest.warns(UserWarning, match=rf"^{dataset.__name__}: not the published data \(sha256\): ") as told:
        assert dataset().train_images[0, 0, 0] == 1
    (message,) = [str(warning.message) for warning in told]
    assert message.count("-images-") == 2  # the labels are as published
    assert "-labels-" not in message


SOURCES = (images.MNIST, images.FASHION_MNIST)  # with their mirrors, which no test sees


def test_downloads_are_encrypted_and_checked_by_sha256():
    for source in SOURCES:
        assert source.algorithm == "sha256"
        assert source.mirrors
        assert all(mirror.startswith("https://") for mirror in source.mirrors)
        assert all(len(digest) == 64 for digest in source.digests.values())


# Download, from this machine


@pytest.mark.parametrize("dataset", [mnist, fashion_mnist])
@pytest.mark.usefixtures("published")
def test_downloads_once(dataset, mirror, home, tiny_mnist, capsys):
    first = dataset()
    np.testing.assert_array_equal(first.train_images, tiny_mnist()[images.TRAIN_IMAGES])
    assert cached(home) == sorted(mirror.files)
    assert "train-images" in capsys.readouterr().err  # the progress bar
    np.testing.assert_array_equal(dataset().test_labels, first.test_labels)
    assert mirror.requests == dict.fromkeys(mirror.files, 1)


@pytest.mark.usefixtures("published")
def test_what_is_there_is_not_downloaded_again(mirror, home):
    mnist()
    (home / "cache" / "equilibria" / "mnist" / f"{images.TEST_IMAGES}.gz").unlink()
    mnist()
    assert mirror.requests[f"{images.TEST_IMAGES}.gz"] == 2
    assert mirror.requests[f"{images.TRAIN_IMAGES}.gz"] == 1


@pytest.mark.usefixtures("published")
def test_the_next_mirror_helps_out(monkeypatch, mirror):
    bad = Mirror()
    bad.files = {**mirror.files, f"{images.TRAIN_LABELS}.gz": gzip.compress(b"something else")}
    monkeypatch.setattr(images, "MNIST", images.MNIST._replace(mirrors=(bad.url, mirror.url)))
    assert mnist().train_labels.tolist() == [0, 1, 2, 3, 4]
    assert mirror.requests == {f"{images.TRAIN_LABELS}.gz": 1}
    bad.close()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda content: gzip.compress(gzip.decompress(content)[:-1] + b"!"), "digest .* is not the published"),
        (lambda content: content[: len(content) // 2], "ended before the end-of-stream marker"),
        (lambda content: b"<html>", "Not a gzipped file"),
        (lambda content: None, "HTTP Error 404"),
        (lambda content: bytes(2**20), "more than 524288 bytes"),
    ],
)
@pytest.mark.usefixtures("published")
def test_a_bad_download_is_one_clear_error_and_leaves_nothing(monkeypatch, mirror, home, spoil, reason):
    monkeypatch.setattr(fetch, "_MOST_BYTES", 2**19)
    file = f"{images.TRAIN_IMAGES}.gz"
    mirror.files[file] = spoil(mirror.files[file])
    with pytest.raises(
        FileNotFoundError, match=rf"(?s)^mnist is not on this machine.*EQUILIBRIA_DATA.*{file}: .*{reason}"
    ):
        mnist()
    assert cached(home) == []


@pytest.mark.usefixtures("published")
def test_no_network_is_one_clear_error(mirror, home):
    mirror.close()
    with pytest.raises(FileNotFoundError) as caught:
        fashion_mnist()
    message = str(caught.value)
    assert "Connection refused" in message
    assert "EQUILIBRIA_DATA" in message
    assert str(home / "cache" / "equilibria" / "fashion_mnist") in message
    assert all(file in message for file in images.FASHION_MNIST.digests)


@pytest.mark.usefixtures("published")
def test_an_interrupted_write_leaves_nothing(monkeypatch, home):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        mnist()
    assert cached(home) == []


# Network inputs


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    loaded, bundle = digits(), load_digits()
    both = np.concatenate([loaded.train_images, loaded.test_images])
    np.testing.assert_array_equal(np.rint(both * (16 / 255)), bundle.images)  # no level is lost
    np.testing.assert_array_equal(np.concatenate([loaded.train_labels, loaded.test_labels]), bundle.target)
    assert both.max() == 255
    assert set(loaded.test_labels) == set(range(10))


@pytest.mark.parametrize(("levels", "off"), [("spin", -1), ("binary", 0)])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_binarise(levels, off, threshold):
    shades = np.arange(256, dtype=np.uint8).reshape(2, 8, 16)
    inputs = binarise(shades, threshold, levels)
    assert inputs.shape == (2, 128)
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs.ravel() == 1, np.arange(256) > 255 * threshold)
    assert set(np.unique(inputs)) <= {1.0, off}


def test_grey_keeps_every_shade():
    shades = np.arange(256, dtype=np.uint8).reshape(2, 8, 16)
    # one division and one product, which every processor rounds alike
    np.testing.assert_array_equal(grey(shades).ravel() * 255, np.arange(256, dtype=np.float32))
    assert grey(shades).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: binarise(np.zeros((2, 8, 8))), "images: got type float64"),
        (lambda: grey(np.zeros(8, np.uint8)), r"images: got shape \(8,\)"),
        (lambda: binarise(np.zeros((8, 8), np.uint8), threshold=128), "threshold: got 128"),
        (lambda: binarise(np.zeros((8, 8), np.uint8), levels="grey"), "levels: got 'grey'"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}; allowed: "):
        call()


# The real files


def real(name):
    folder = Path(os.environ.get("EQUILIBRIA_DATA", "")) / name
    missing = pytest.mark.skipif(not folder.is_dir(), reason=f"no {name} files; set EQUILIBRIA_DATA")
    return pytest.param(folder, marks=missing)


@pytest.mark.parametrize("folder", [real("mnist")])
def test_the_real_mnist(folder):
    loaded = mnist(folder=folder)
    assert loaded.train_images.shape == (60_000, 28, 28)
    assert loaded.test_images.shape == (10_000, 28, 28)
    assert loaded.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(loaded.train_labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert loaded.train_images.mean() / 255 == pytest.approx(0.1307, abs=5e-5)  # the constant everyone normalises by
    for file, content in fetch.contents(images.MNIST, folder).items():
        plain = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        assert hashlib.sha256(plain).hexdigest() == images.MNIST.digests[file]


@pytest.mark.parametrize("folder", [real("fashion_mnist")])
def test_the_real_fashion_mnist(folder):
    loaded = fashion_mnist(folder=folder)
    assert loaded.train_images.shape == (60_000, 28, 28)
    assert np.bincount(loaded.train_labels).tolist() == [6000] * 10
    assert np.bincount(loaded.test_labels).tolist() == [1000] * 10
    # 0.2860 as published; copies are about that divide the same 70,000 images otherwise, hence five standard errors.
    brightness = grey(loaded.train_images).mean(axis=1)
    assert brightness.mean() == pytest.approx(0.2860, abs=5 * brightness.std() / np.sqrt(60_000))

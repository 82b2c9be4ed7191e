"""The tables of the commands: read as the options say, made ready for the units, and described for those that come later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import equilibria as eq
from equilibria import check
from equilibria.app import sequences
from equilibria.app.beside import is_column
from equilibria.app.options import TableOptions, listed
from equilibria.estimators.nudged import scales

UNITS = {"binary": eq.Binary, "spin": eq.Spin, "gaussian": eq.Gaussian}
_OF_KIND = {"bits": "binary", "grey": "binary", "spins": "spin", "real": "gaussian"}
_HELD_OUT = 10  # fewer examples say nothing


class Features(NamedTuple):
    """A table as a machine takes it, and how to go back.

    Attributes:
        rows: (examples, features).
        names: of the features.
        named: whether the names are the table's own.
        unit: "binary", "spin", "gaussian" or "potts".
        offset: what was taken off each feature.
        scale: what it was then divided by.
        image_shape: (height, width) where each example is a picture.
        target: what is to be predicted of each example, if anything is.
        sites: for "potts", what `sequences.described` says; else nothing.
        reading: the options that the table was read with.
        notes: sentences about what was decided.
    """

    rows: np.ndarray
    names: tuple[str, ...]
    named: bool
    unit: str
    offset: np.ndarray
    scale: np.ndarray
    image_shape: tuple[int, int] | None
    target: np.ndarray | None
    sites: dict[str, Any]
    reading: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def visible(self) -> eq.Unit:
        """The unit of the features."""
        return eq.Potts(self.sites["states"]) if self.sites else UNITS[self.unit]()

    def described(self) -> dict[str, Any]:
        """What `evaluate` and `sample` have to know, as JSON says it."""
        return {
            "names": list(self.names),
            "named": self.named,
            "unit": self.unit,
            "offset": self.offset.tolist(),
            "scale": self.scale.tolist(),
            "image_shape": self.image_shape,
            "sites": self.sites,
            "reading": self.reading,
        }


def reading_of(options: TableOptions) -> dict[str, Any]:
    """How a table is read, as arguments of `read_table` and of `changed`."""
    shape = None
    if options.image_shape is not None:
        parts = options.image_shape.lower().replace("×", "x").split("x")
        if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
            check.refuse("image_shape", repr(options.image_shape), "HEIGHTxWIDTH, such as 28x28")
        shape = (int(parts[0]), int(parts[1]))
    weights = getattr(options, "weights", None)
    return {
        "array": options.array,
        "columns": listed(options.columns),
        "drop": [*(listed(options.drop) or []), *([weights] if is_column(weights, options.data) else [])],
        "id_column": None if options.id_column == "none" else options.id_column,
        "header": {"auto": None, "yes": True, "no": False}[options.header],
        "missing": "keep" if options.missing == "sum-out" else "refuse",
        "image_shape": shape,
        "binarise": options.binarise,
        "divide_by": options.divide_by,
    }


def read(options: TableOptions, units: str = "auto", target: str | None = None) -> Features:
    """The table that options speak of, with the kind of its features.

    Args:
        options: of the command.
        units: what the features are; "auto" finds out, and refuses counts; "scaled" takes any numbers, brought to
            mean 0 and a spread of about 1; "two-valued" leaves them as they are, for others to look at.
        target: a column that is to be predicted.

    Returns:
        The table as a machine takes it.

    Raises:
        ValueError: if there is no such table, or its numbers are not what the units take.
    """
    reading = reading_of(options)
    if sequences.is_fasta(options.data) or units == "potts":
        return _sites(options, reading)
    table = _table(options.data, reading, options.allow_large, target)
    values = changed(table.values, reading)
    unit = _unit(values, units, options.data)
    offset, scale = np.zeros(values.shape[1]), np.ones(values.shape[1])
    notes = list(table.notes)
    if unit == "gaussian":
        offset, spread = np.nanmean(values, 0, dtype=np.float64), np.nanstd(values, 0, dtype=np.float64)
        # A feature without spread, up to rounding, keeps its scale: there is nothing to learn about it.
        scale = np.where(spread > 1e-7 * np.maximum(np.abs(offset), 1e-300), spread, 1.0)
        if units == "scaled":  # inputs of a classifier, as the estimator takes them
            scale = scales(np.asarray(values, np.float64))
        values = ((values - offset) / scale).astype(np.float32)
        spread_told = "a spread of about 1" if units == "scaled" else "variance 1"
        notes.append(f"features are brought to mean 0 and {spread_told}")
    return Features(
        values,
        table.names,
        table.named,
        unit,
        offset,
        scale,
        table.image_shape,
        table.target,
        {},
        reading,
        tuple(notes),
    )


def _sites(options: TableOptions, reading: dict[str, Any]) -> Features:
    """Sites of several states, each a block of neurons of which one is on."""
    alphabet = getattr(options, "alphabet", None)
    states, names, named, notes = _states(options.data, reading, options.allow_large, alphabet)
    about = sequences.described(states, names, alphabet if sequences.is_fasta(options.data) else None)
    rows = eq.data.one_hot(states, about["states"])
    neurons = sequences.neuron_names(about)
    plain = np.zeros(rows.shape[1]), np.ones(rows.shape[1]), None, None
    told = (*notes, f"{states.shape[1]} sites of {about['states']} states")
    return Features(rows, neurons, named, "potts", *plain, about, reading, told)


def _states(
    path: Path, reading: Mapping[str, Any], allow_large: bool, alphabet: str | None
) -> tuple[np.ndarray, tuple[str, ...], bool, tuple[str, ...]]:
    """The states of sites, -1 where one is missing, with the sites' names."""
    if sequences.is_fasta(path):
        return sequences.read(path, alphabet or "protein", reading["missing"])
    table = _table(path, reading, allow_large)
    if eq.data.kind_of(table.values) not in ("bits", "counts"):
        check.refuse("data", f"{path} with numbers that are no states", "whole numbers from 0 for potts units")
    return np.where(np.isnan(table.values), -1, table.values).astype(int), table.names, table.named, table.notes


def _unit(values: np.ndarray, units: str, path: Path) -> str:
    """The kind of the features, if the values are such that it can be."""
    if units in ("scaled", "two-valued"):
        return "gaussian" if units == "scaled" else "spin"
    kind = eq.data.kind_of(values)
    if units == "auto" and kind == "counts":
        _refuse_counts(values, path)
    unit = check.choice("visible_units", _OF_KIND[kind] if units == "auto" else units, UNITS)
    UNITS[unit]().check("data", values[~np.isnan(values)] if values.dtype.kind == "f" else values, probabilities=True)
    return unit


def read_as(
    path: Path, before: Mapping[str, Any], array: str | None, allow_large: bool, target: str | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """A table of the same features as the one that a machine was trained on.

    Args:
        path: of the table.
        before: what `Features.described` said of that one; empty where nothing is known of it.
        array: which of several arrays in the file; as in training by default.
        allow_large: whether what is packed may take more than 2 GiB of memory.
        target: a column that was predicted; the table need not have it.

    Returns:
        (examples, features), as the machine takes them, and the targets, if the table has them.

    Raises:
        ValueError: if there is no such table, or it lacks a feature.
    """
    reading = dict(before.get("reading", {}))
    reading["array"] = array or reading.get("array")
    if sites := before.get("sites"):
        reading |= {"columns": sites["names"], "drop": [], "id_column": None} if before["named"] else {}
        with _features_of_training(path):
            states, *_ = _states(path, reading, allow_large, sites["alphabet"])
        if states.shape[1] != len(sites["names"]):
            check.refuse("data", f"{path} with {states.shape[1]} sites", f"{len(sites['names'])}, as in training")
        return eq.data.one_hot(states, sites["states"]), None
    if before.get("named"):  # by name: other columns, and another order, do no harm
        reading |= {"columns": before["names"], "drop": [], "id_column": None}
    with _features_of_training(path):
        try:
            table = _table(path, reading, allow_large, target)
        except ValueError as error:
            if target is None or not str(error).startswith("target: got"):
                raise
            table = _table(path, reading, allow_large)
    values = changed(table.values, reading)
    if not before:
        return values, table.target
    if values.shape[1] != len(before["names"]):
        check.refuse("data", f"{path} with {values.shape[1]} features", f"{len(before['names'])}, as in training")
    if before["unit"] == "gaussian":
        values = ((values - np.array(before["offset"])) / np.array(before["scale"])).astype(np.float32)
    return values, table.target


@contextmanager
def _features_of_training(path: Path) -> Iterator[None]:
    """A column that is lacking is the table's fault: who uses a machine has not chosen any."""
    try:
        yield
    except ValueError as error:
        name, found, rest = str(error).removeprefix("columns: got ").partition(f", which {path.name} does not have")
        if not found:
            raise
        there = rest.removeprefix("; allowed: columns such as ")
        check.refuse("data", f"{path.name} without the column {name}", f"the features of training; it has {there}")


def changed(values: np.ndarray, reading: Mapping[str, Any]) -> np.ndarray:
    """Values cut at a threshold, or divided by a number; missing ones stay so."""
    threshold, divisor = reading.get("binarise"), reading.get("divide_by")
    if threshold is not None and divisor is not None:
        check.refuse("binarise", f"{threshold:g} and divide_by {divisor:g}", "one of the two")
    if threshold is not None:
        bits = (values > check.number("binarise", threshold)).astype(np.uint8)
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        return np.where(missing, np.nan, bits).astype(np.float32) if missing.any() else bits
    if divisor is not None:
        return (values / check.number("divide_by", divisor, above=0.0)).astype(np.float32)
    return values


def held_out(rows: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the examples to learn from and of those held out, none where they would be fewer than ten.

    >>> [len(part) for part in held_out(200, 0.1, 0)], [len(part) for part in held_out(50, 0.1, 0)]
    ([180, 20], [50, 0])
    """
    check.number("validation", share, least=0.0, most=0.9)
    count = int(share * rows)
    if count < _HELD_OUT:
        return np.arange(rows), np.arange(0)
    order = np.random.default_rng([seed % 2**32, 1]).permutation(rows)
    return np.sort(order[count:]), np.sort(order[:count])


def _table(path: Path, reading: Mapping[str, Any], allow_large: bool, target: str | None = None) -> eq.data.Table:
    options = {name: value for name, value in reading.items() if name not in ("binarise", "divide_by")}
    shape = options.get("image_shape")
    options["image_shape"] = None if shape is None else tuple(shape)
    return eq.data.read_table(path, allow_large=allow_large, target=target, **options)


def _refuse_counts(values: np.ndarray, path: Path) -> None:
    low, high = values.min(), values.max()
    pixels = "divide_by=255 for 8-bit pixels, " if high <= 255 else ""
    given = f"{path} with whole numbers from {low:g} to {high:g}: counts, classes or an ID"
    allowed = f"{pixels}binarise=0 for present or absent, visible_units=gaussian to take them as real numbers"
    check.refuse("data", given, f"{allowed}, drop=... for a column that is no feature")

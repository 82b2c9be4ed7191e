"""What a notebook shows of our objects: small tables, escaped, without any style of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A table in HTML.

    Args:
        title: what it is about.
        heads: of the columns.
        rows: of cells, which are shown as text.
        note: a line below it.

    Returns:
        The markup, with every text escaped.

    >>> table("a <network>", ["layer"], [["visible"]])
    '<b>a &lt;network&gt;</b><table><tr><th>layer</th></tr><tr><td>visible</td></tr></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<b>{escape(title)}</b><table><tr>{head}</tr>{body}</table>" + (
        f"<div>{escape(note)}</div>" if note else ""
    )


def last_row(title: str, history: Any, stopped: str | None) -> str:
    """What a run had come to at its last record; of several runs or data sets side by side their mean, least and largest.

    Args:
        title: what it is about.
        history: an `xarray.Dataset` with the axis "step", and "run" or "set" for several.
        stopped: why the run was ended, None if it went to its end.

    Returns:
        A table; columns with further axes are left out.

    >>> import xarray as xr
    >>> rows = xr.Dataset({"error": (("step", "run"), [[0.5, 0.7], [0.1, 0.3]])}, {"step": [1, 2]})
    >>> last_row("Run", rows, None).count("<td>0.2</td>"), last_row("Run", rows, None)[-38:]
    (1, '<div>2 steps, 2 runs, to its end</div>')
    """
    last = history.isel(step=-1)
    lead = next((axis for axis in ("run", "set") if axis in last.dims), None)
    note = [f"{int(last.step)} steps", "to its end" if stopped is None else f"stopped: {stopped}"]
    heads: tuple[str, ...] = ("at the last record", "value")
    if lead is not None:
        heads = ("at the last record", "mean", "least", "largest")
        note.insert(1, f"{last.sizes[lead]} {lead}s")
    rows = []
    for name, values in last.data_vars.items():
        if values.ndim == 0:
            rows.append((name, f"{float(values):.4g}"))
        elif values.dims == (lead,):
            rows.append((name, *(f"{float(getattr(values, what)()):.4g}" for what in ("mean", "min", "max"))))
    return table(title, heads, rows, ", ".join(note))

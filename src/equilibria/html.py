"""What a notebook shows of our objects: small tables, escaped, without any style of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


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

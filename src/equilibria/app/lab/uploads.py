"""What a visitor drops on the page: pictures and tables, with the limits that are told on the page."""

from __future__ import annotations

import io
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from equilibria import check

MOST_BYTES = 8_000_000
MOST_ROWS, MOST_COLUMNS = 20_000, 1_024
MOST_TABLES = 16  # that are kept; the oldest goes first


async def upload(request: Request) -> JSONResponse:
    """Read one file; the answer is what became of it, or a sentence on why nothing did."""
    if int(request.headers.get("content-length") or 0) > MOST_BYTES:
        return _refused(f"file: got more than {MOST_BYTES:,} bytes; allowed: at most {MOST_BYTES:,} bytes", 413)
    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                return _refused(f"file: got more than {MOST_BYTES:,} bytes; allowed: at most {MOST_BYTES:,} bytes", 413)
    except ClientDisconnect:
        return _refused("file: got a part of it; allowed: all of it", 400)
    kind, name = request.query_params.get("kind", ""), request.query_params.get("name", "")
    try:
        return JSONResponse(await run_in_threadpool(_read, kind, name, bytes(content), request.app.state.tables))
    except ValueError as error:
        return _refused(str(error), 400)


def _refused(text: str, status: int) -> JSONResponse:
    return JSONResponse({"error": text}, status_code=status)


def _read(kind: str, name: str, content: bytes, tables: dict[str, np.ndarray]) -> dict[str, Any]:
    if check.choice("kind", kind, ("picture", "table")) == "picture":
        from equilibria.app.lab.pictures import picture
        from equilibria.app.lab.rooms.room import to_bits

        return {"bits": to_bits(picture(content))}
    rows = table(name, content)
    while len(tables) >= MOST_TABLES:
        del tables[next(iter(tables))]
    key = secrets.token_hex(8)
    tables[key] = rows
    return {"table": key, "rows": len(rows), "columns": rows.shape[1]}


def table(name: str, content: bytes) -> np.ndarray:
    r"""A table as the command line reads it: nothing in it is executed.

    Args:
        name: of the file; its ending says what it is.
        content: of the file.

    Returns:
        (examples, features).

    Raises:
        ValueError: if there is no table in it, or too large a one.

    >>> table("a.csv", b"1,0\n0,1\n").shape
    (2, 2)
    """
    from equilibria.data.tables.reading import read_table

    rows = read_table(io.BytesIO(content), name=Path(name).name).values
    if len(rows) > MOST_ROWS or rows.shape[1] > MOST_COLUMNS:
        check.refuse("file", f"a table {rows.shape}", f"at most {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns")
    return rows

"""Links to other projects' pages, from lists kept here: building needs no network.

`inventories/NAME.txt` has the address of a project's documentation in its first line, then one line for each name we link to:
role, name, page. Sphinx reads inventories in a format of its own, which is written from these lists at each build.
"""

import zlib
from pathlib import Path


def write(app, config) -> None:
    """Compile every list, and tell intersphinx where it is."""
    folder = Path(app.srcdir) / "_build" / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((Path(app.srcdir) / "inventories").glob("*.txt")):
        address, *rows = (line for line in path.read_text().splitlines() if line.strip())
        body = "".join(f"{name} py:{role} 1 {page} -\n" for role, name, page in map(str.split, rows))
        head = f"# Sphinx inventory version 2\n# Project: {path.stem}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        compiled = folder / f"{path.stem}.inv"
        compiled.write_bytes(head.encode() + zlib.compress(body.encode()))
        config.intersphinx_mapping[path.stem] = (address, (str(compiled),))


def setup(app):
    """Before intersphinx reads its mapping."""
    app.connect("config-inited", write, priority=100)
    return {"parallel_read_safe": True}

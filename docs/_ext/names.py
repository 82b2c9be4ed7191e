"""Names in the text of pages lead to their page of the reference: `eq.train(...)` here, `xarray.Dataset` at its project.

A name that stands as code is a link wherever it can be resolved. One of ours that does not exist is a warning, and so is one
of another project that the kept inventories do not have: the name is wrong, or the list in `inventories/` lacks a line.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import equilibria

PROJECTS = {path.stem for path in (Path(__file__).parents[1] / "inventories").glob("*.txt")}
_OURS = re.compile(r"(?:eq|equilibria)\.([\w.]*\w)(?:\(.*\))?")
# Public ones: where a class really lives (jax.jaxlib._jax.Array) is a matter of versions.
_THEIRS = re.compile(rf"(?:{'|'.join(sorted(PROJECTS))})(?:\.[A-Za-z]\w*)+")


def target(text: str) -> str | None:
    """The full name that a piece of code is about, None if it is anything else than one name or one call."""
    ours = _OURS.fullmatch(text)
    if ours is not None:
        return f"equilibria.{ours[1]}"
    return text if _THEIRS.fullmatch(text) else None


def exists(name: str) -> bool:
    """Whether the package has what `equilibria.a.b` says."""
    thing = equilibria
    for part in name.split(".")[1:]:
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


class Names(SphinxTransform):
    """Wrap each such piece of code, outside titles and links, into a reference to be resolved."""

    default_priority = 500

    def apply(self, **kwargs):
        for node in list(self.document.findall(nodes.literal)):
            name = target(node.astext())
            inside = (nodes.title, nodes.reference, pending_xref, nodes.literal_block)
            if name is None or _within(node, inside):
                continue
            if name.startswith("equilibria.") and not exists(name):
                logging.getLogger(__name__).warning("there is no %s", name, location=node)
            link = pending_xref(refdomain="py", reftype="obj", reftarget=name, refexplicit=True)
            link["refdoc"] = self.env.docname
            node.replace_self(link)
            link += node


def _within(node, kinds) -> bool:
    while node is not None:
        if isinstance(node, kinds):
            return True
        node = node.parent
    return False


def only_theirs(app, config) -> None:
    """Of what nobody knows, warn where the first part of the name is one of the projects whose lists are kept."""
    config.nitpicky = True
    config.nitpick_ignore_regex = [(r"(?!py:).*", r".*"), (r"py:.*", rf"(?!{_THEIRS.pattern}$).*")]


def setup(app):
    """Names are looked for when a page is read, and resolved like any reference."""
    app.add_transform(Names)
    app.connect("config-inited", only_theirs)
    return {"parallel_read_safe": True}

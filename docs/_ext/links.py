"""Every link inside the site leads somewhere: pages, files and places on pages are looked up after the build.

Other sites are not asked, since building needs no network: only the form of their addresses is looked at.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PAPERS = {"doi.org": r"/10\.\d{4,9}/[^\s/]\S*", "arxiv.org": r"/abs/\d{2}(0[1-9]|1[0-2])\.\d{4,5}(v\d+)?"}


class _Page(HTMLParser):
    """What a page links to, and the places on it that can be linked to."""

    def __init__(self, text: str):
        super().__init__()
        self.places: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links |= {given[name] for name in ("href", "src") if given.get(name)}


def well_formed(address: str) -> bool:
    """Whether an address of another site can be one: https and a host with a dot, and of papers a DOI or an arXiv number."""
    parts = urlsplit(address)
    if parts.hostname in ("127.0.0.1", "localhost"):  # the lab on one's own machine
        return parts.scheme in ("http", "https")
    known = _PAPERS.get(parts.hostname or "")
    right = known is None or re.fullmatch(known, unquote(parts.path)) is not None
    return parts.scheme == "https" and "." in (parts.hostname or "") and not re.search(r"\s", address) and right


def broken(folder: Path) -> list[str]:
    """The links of all pages in a folder that lead nowhere, each with its page."""
    pages = {path.resolve(): _Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme in ("http", "https") and not well_formed(link):
                    found.append(f"{path.relative_to(folder.resolve())}: {link} is no address")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = not target.exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places
            )
            if lost:
                found.append(f"{path.relative_to(folder.resolve())}: {link} leads nowhere")
    return found


def check(app, exception) -> None:
    """Warn of each; a warning is an error where the site is built with -W."""
    from sphinx.util import logging  # `broken` needs no Sphinx, and neither does its test

    if exception is None and app.builder.name == "html":
        for each in broken(Path(app.outdir)):
            logging.getLogger(__name__).warning(each)


def setup(app):
    """After all is written."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}

"""Every link inside the site leads somewhere: pages, files and places on pages are looked up after the build.

Addresses of other sites are not looked at: building needs no network.
"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


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


def broken(folder: Path) -> list[str]:
    """The links of all pages in a folder that lead nowhere, each with its page."""
    pages = {path.resolve(): _Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
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

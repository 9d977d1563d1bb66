"""Checks the links of the built site: ``python docs/links.py FOLDER``. Addresses elsewhere are not asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class _Reader(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        target = given.get("href") or given.get("src")
        if target and tag in ("script", "img", "link", "iframe"):
            self.loads.append(target)
        if target:
            self.links.append(target)


def faults(folder: Path) -> Iterator[str]:
    """What is wrong with the links of a site: files and anchors that are missing, and what is loaded from elsewhere."""
    pages = {path: _Reader(path.read_text("utf-8")) for path in sorted(folder.rglob("*.html"))}
    if not pages:
        yield f"{folder}: no pages"
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of the address it will have
            continue
        yield from (f"{path}: loads {link}" for link in page.loads if urlsplit(link).netloc)
        for link in page.links:
            address, anchor = urldefrag(link)
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{path}: {link} leads nowhere"
            elif target in pages and unquote(anchor) not in pages[target].anchors and not anchor.startswith("__"):
                yield f"{path}: {link} has no such anchor"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "all links lead somewhere")
    sys.exit(bool(found))

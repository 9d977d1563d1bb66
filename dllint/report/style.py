"""ANSI colors and links, or none of them."""

from __future__ import annotations

_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}

TONES: dict[str, str] = {"error": "red", "warning": "yellow", "info": "cyan"}
"""The color of each severity."""


class Style:
    """Paints text when ``color`` is true and passes it through when not."""

    __slots__ = ("color",)

    def __init__(self, color: bool) -> None:
        self.color = color

    def paint(self, text: str, *names: str) -> str:
        """``text`` in the colors and weights named, which must be known ones."""
        if not self.color or not text:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"

    def link(self, text: str, url: str) -> str:
        """``text`` as a terminal hyperlink (OSC 8) to ``url``, if there is one."""
        if not self.color or not url.isprintable() or not url:
            return text
        return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\"

"""Reading source files: bytes to text as Python itself would decode them, and positions in that text.

Anything can lie behind a path: a socket, a photograph, a file in UTF-16. Whatever it is, reading it gives a
:class:`SourceFile` or a :class:`SourceError` whose message can be shown to the user, and never blocks.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import zlib
from bisect import bisect_right
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dllint.dataclass import dataclass
from dllint.findings import Location

if TYPE_CHECKING:
    from dllint.files.notebook import Notebook

MAX_BYTES = 5_000_000
NOTEBOOK_ALLOWANCE = 20
"""How many times larger than a module a notebook may be: most of it is pictures. Its code has the module's limit."""

LINE_END = re.compile(r"\r\n?|\n")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK_OR_COMMENT = re.compile(rb"^[ \t\f]*(?:#|$)")
_FIRST_LINES = re.compile(rb"([^\r\n]*)(?:\r\n?|\n)?([^\r\n]*)")
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_FASTEST = 1  # level of compression
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class SourceError(Exception):
    """A file that cannot be read as source. ``str()`` is the message for the user; it does not repeat the path."""

    def __init__(self, message: str, kind: Literal["unreadable", "limit"] = "unreadable") -> None:
        super().__init__(message)
        self.kind = kind


_CELL = re.compile(r"(?m)^# ?(?:%%|In ?\[[\d ]*\]:)")


class SourceFile:
    """One source file, decoded.

    ``path`` is absolute; ``display`` is what users see (relative to the working directory when below it, with
    forward slashes). ``text`` keeps its line ends; for a notebook it is one module made of all code cells, and
    ``characters`` is its length. ``encoding`` is the declared one, or ``utf-8``, or ``utf-8-sig`` with a byte order
    mark (which is not in ``text``). ``digest`` identifies the bytes of the file.
    """

    __slots__ = ("_packed", "_starts", "_text", "characters", "digest", "display", "encoding", "notebook", "path")

    def __init__(
        self,
        path: Path,
        display: str,
        text: str,
        encoding: str = "utf-8",
        notebook: Notebook | None = None,
        digest: str = "",
    ) -> None:
        self.path = path
        self.display = display
        self.encoding = encoding
        self.notebook = notebook
        self.digest = digest
        self.characters = len(text)
        self._text: str | None = text
        self._packed = b""
        self._starts: list[int] = []

    @property
    def text(self) -> str:
        """The text, which is unpacked where it is asked for again."""
        if self._text is None:
            self._text = zlib.decompress(self._packed).decode("utf-8", "surrogatepass")
        return self._text

    @property
    def is_packed(self) -> bool:
        """Whether the text is held compressed."""
        return self._text is None

    def pack(self) -> None:
        """Hold the text compressed. Most files of a library are read once; one rare character makes a text fourfold."""
        if self._text is not None:
            self._packed = self._packed or zlib.compress(self._text.encode("utf-8", "surrogatepass"), _FASTEST)
            self._text, self._starts = None, []

    @property
    def has_cells(self) -> bool:
        """Whether it is a notebook, or a script with marks for cells (``# %%``, ``# In[3]:``), run cell by cell."""
        return self.notebook is not None or _CELL.search(self.text) is not None

    def cell_of(self, line: int) -> int:
        """The number of the cell that a line is in; 0 before the first and where there are none."""
        if self.notebook is not None:
            return self.notebook.locate(line)[0]
        return sum(1 for match in _CELL.finditer(self.text) if self.text.count("\n", 0, match.start()) < line)

    @property
    def line_starts(self) -> list[int]:
        """The offset of the first character of every line. Lines end where Python's tokenizer says they do."""
        if not self._starts and "\r" in self.text:
            self._starts = [0, *(match.end() for match in LINE_END.finditer(self.text))]
        elif not self._starts:  # the same, several times faster
            lengths = [len(line) + 1 for line in self.text.split("\n")]
            self._starts = [0, *accumulate(lengths[:-1])]
        return self._starts

    @property
    def newline(self) -> str:
        """The line end of the file: that of its first line, or ``\\n`` if it has only one line."""
        match = LINE_END.search(self.text)
        return match.group() if match else "\n"

    @property
    def file_text(self) -> str:
        """The text of the whole file, which for a notebook is its JSON."""
        return self.text if self.notebook is None else self.notebook.raw

    def to_bytes(self) -> bytes:
        """The bytes of the file.

        Raises:
            UnicodeEncodeError: a character that has come in by an edit does not exist in the encoding.
        """
        return self.file_text.encode(self.encoding)

    def line_text(self, line: int) -> str:
        """A line (from 1) of ``text`` without its end; empty if there is no such line."""
        starts = self.line_starts
        if not 1 <= line <= len(starts):
            return ""
        end = starts[line] if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r\n")

    def offset(self, line: int, utf8_column: int) -> int:
        """The offset in ``text`` of a position of ``ast``: line from 1, column in UTF-8 bytes from 0.

        A position after the end of the line or the text is taken back to that end.
        """
        starts = self.line_starts
        if line > len(starts):
            return len(self.text)
        start = starts[max(line, 1) - 1]
        content = self.line_text(line)
        if content.isascii():
            return start + min(utf8_column, len(content))
        before = content.encode("utf-8", "surrogatepass")[:utf8_column]
        return start + len(before.translate(None, _CONTINUATION_BYTES))

    def position(self, offset: int) -> tuple[int, int]:
        """The line and the column, both from 1 and in code points, of an offset in ``text``."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def location(self, line: int, column: int, end_line: int, end_column: int) -> Location:
        """The range of two ``ast`` positions as users see it."""
        return self.location_of(self.offset(line, column), self.offset(end_line, end_column))

    def location_of(self, start: int, end: int) -> Location:
        """The range ``text[start:end]`` as users see it: in a notebook, lines of the cell in which it starts."""
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        if self.notebook is None:
            return Location(self.display, line, column, end_line, end_column)
        cell, cell_line = self.notebook.locate(line)
        end_cell, end_cell_line = self.notebook.locate(end_line)
        if end_cell != cell or self.notebook.module_line(cell, end_cell_line) != end_line:
            end_cell_line = len(self.notebook.cell_lines(cell))
            end_column = len(self.line_text(self.notebook.module_line(cell, end_cell_line))) + 1
        return Location(self.display, cell_line, column, end_cell_line, end_column, cell)

    def span(self, location: Location) -> tuple[int, int]:
        """The offsets of a location of this file; the inverse of :meth:`location_of`."""
        first, last = location.line, location.end_line
        if self.notebook is not None and location.cell is not None:
            first = self.notebook.module_line(location.cell, first)
            last = self.notebook.module_line(location.cell, last)
        return self._code_point(first, location.column), self._code_point(last, location.end_column)

    def _code_point(self, line: int, column: int) -> int:
        starts = self.line_starts
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(self.text))


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Why Python cannot parse a text: its message, and the place (line and column from 1, in code points)."""

    message: str
    line: int
    column: int


def syntax_problem(text: str) -> SyntaxProblem | None:
    """What Python's parser has against a text, or ``None`` if it parses."""
    from dllint.files.parsing import parse_module

    try:
        parse_module(text)
    except SyntaxError as error:
        return SyntaxProblem(error.msg, max(error.lineno or 1, 1), max(error.offset or 1, 1))
    except (RecursionError, MemoryError):
        return SyntaxProblem("too deeply nested for Python's parser", 1, 1)
    except ValueError as error:  # NUL, or half of a surrogate pair
        return SyntaxProblem(str(error), 1, 1)
    return None


def read_source(path: Path, *, display: str | None = None, max_bytes: int = MAX_BYTES) -> SourceFile:
    """Read and decode a module, or a notebook if the name ends in ``.ipynb``.

    Raises:
        SourceError: there is no such file, it is no regular file, may not be read, is larger than ``max_bytes``, is
            binary, or is not text in the encoding it declares; or it is a broken notebook.
    """
    is_notebook = path.suffix == ".ipynb"
    raw = read_bytes(path, max_bytes * NOTEBOOK_ALLOWANCE if is_notebook else max_bytes)
    return source_from_bytes(raw, path, display=display, max_bytes=max_bytes)


def source_from_bytes(raw: bytes, path: Path, *, display: str | None = None, max_bytes: int = MAX_BYTES) -> SourceFile:
    """What :func:`read_source` makes of a file with these bytes (standard input, a file about to be written).

    Raises:
        SourceError: as :func:`read_source`.
    """
    text, encoding = decode_notebook(raw) if path.suffix == ".ipynb" else decode_source(raw)
    return _source(text, encoding, path, display, max_bytes, blake2b(raw, digest_size=16).hexdigest())


def source_from_text(
    text: str, path: Path, *, display: str | None = None, encoding: str = "utf-8", max_bytes: int = MAX_BYTES
) -> SourceFile:
    """The source file that ``text`` would be at ``path``: an unsaved buffer of an editor, or decoded input.

    For a notebook, ``text`` is its JSON.

    Raises:
        SourceError: the text has a NUL character in it, is too long, or is a broken notebook.
    """
    if text.startswith("\ufeff"):
        text, encoding = text[1:], "utf-8-sig"
    if "\0" in text:
        raise SourceError(f"binary file (NUL character at offset {text.index(chr(0))})")
    raw = text.encode("utf-8", "surrogatepass")
    return _source(text, encoding, path, display, max_bytes, blake2b(raw, digest_size=16).hexdigest())


def _source(text: str, encoding: str, path: Path, display: str | None, max_bytes: int, digest: str) -> SourceFile:
    absolute = os.path.abspath(path)
    notebook = None
    if path.suffix == ".ipynb":
        from dllint.files.notebook import read_notebook  # json is needed for notebooks only

        notebook = read_notebook(text, encoding)
        text = notebook.text
    if len(text) > max_bytes:
        raise SourceError(_too_large(max_bytes), "limit")
    return SourceFile(Path(absolute), display or display_path(absolute), text, encoding, notebook, digest)


def display_path(absolute: str) -> str:
    """A path as users see it: relative to the working directory when below it, with forward slashes."""
    working_directory = os.path.join(os.getcwd(), "")
    return absolute.removeprefix(working_directory).replace(os.sep, "/")


def read_bytes(path: str | Path, max_bytes: int = MAX_BYTES * NOTEBOOK_ALLOWANCE) -> bytes:
    """All bytes of a regular file. It is opened without blocking, so that a FIFO is refused instead of waited for.

    Raises:
        SourceError: there is no such file, it is no regular file, may not be read, or is larger than ``max_bytes``.
    """
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SourceError("is a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file")
            if status.st_size > max_bytes:
                raise SourceError(_too_large(max_bytes), "limit")
            chunks = [os.read(descriptor, max(status.st_size, 4096) + 1)]
            size = len(chunks[0])
            while chunks[-1] and size <= max_bytes:  # short reads, and files of /proc that claim to be empty
                chunks.append(os.read(descriptor, 65536))
                size += len(chunks[-1])
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = "is a directory" if os.path.isdir(path) else os_reason(error, path)  # Windows does not open folders
        raise SourceError(reason) from error
    except ValueError as error:  # a NUL in the path
        raise SourceError(f"not a valid path: {error}") from error
    if size > max_bytes:
        raise SourceError(_too_large(max_bytes), "limit")
    return b"".join(chunks)


def os_reason(error: OSError, path: Path | str) -> str:
    """Why the operating system would not open a path, in words for the user."""
    if isinstance(error, FileNotFoundError):
        return "broken symbolic link" if os.path.islink(path) else "no such file or directory"
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]


def _too_large(max_bytes: int) -> str:
    return f"larger than the limit of {max_bytes / 1e6:g} MB"


def decode_source(raw: bytes) -> tuple[str, str]:
    """Decode a module as Python does: byte order mark, then the declared encoding (PEP 263), else UTF-8.

    Returns:
        The text, without the mark, and the name of the encoding.

    Raises:
        SourceError: the bytes are not text in that encoding, or Python would not accept the declaration.
    """
    if raw.startswith(_UTF16_BOMS):
        raise SourceError("UTF-16 text; Python reads UTF-8, or an encoding declared in the first two lines")
    if b"\0" in raw:
        raise SourceError(f"binary file (NUL byte at offset {raw.index(0)})")
    declared = _declared_encoding(raw)
    if raw.startswith(codecs.BOM_UTF8):
        if declared and not _is_utf8(declared):
            raise SourceError(f"declares the encoding {declared!r} but starts with the byte order mark of UTF-8")
        return _decode(raw[3:], "utf-8", at=3), "utf-8-sig"
    if not declared or _is_utf8(declared):
        return _decode(raw, "utf-8"), "utf-8"
    text = _decode(raw, declared)
    if "\0" in text or not text.startswith(raw.partition(b"#")[0].decode("ascii", "replace") + "#"):
        raise SourceError(f"declares {declared!r}, which is not an encoding for source code")
    return text, declared


def decode_notebook(raw: bytes) -> tuple[str, str]:
    """Decode a notebook: JSON is UTF-8, with or without a byte order mark.

    Raises:
        SourceError: the bytes are not UTF-8.
    """
    if b"\0" in raw:
        raise SourceError(f"binary file (NUL byte at offset {raw.index(0)})")
    if raw.startswith(codecs.BOM_UTF8):
        return _decode(raw[3:], "utf-8", at=3), "utf-8-sig"
    return _decode(raw, "utf-8"), "utf-8"


def _declared_encoding(raw: bytes) -> str | None:
    if b"coding" not in raw[:4096]:
        return None
    match = _FIRST_LINES.match(raw.removeprefix(codecs.BOM_UTF8))
    assert match is not None  # the pattern matches anything
    first, second = match.groups()
    cookie = _COOKIE.match(first)
    if cookie is None and _BLANK_OR_COMMENT.match(first):
        cookie = _COOKIE.match(second)
    return cookie.group(1).decode("ascii", "replace") if cookie else None


def _is_utf8(name: str) -> bool:
    return name.lower().replace("_", "-") in ("utf-8", "utf8", "u8", "utf", "utf-8-sig", "cp65001")


def _decode(raw: bytes, encoding: str, at: int = 0) -> str:
    """Decode ``raw``, which starts at offset ``at`` of the file."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        found = error.object[error.start]
        raise SourceError(f"not {encoding} text (byte 0x{found:02x} at offset {at + error.start})") from error
    except LookupError as error:
        raise SourceError(f"declares an unknown encoding: {encoding!r}") from error
    except ValueError as error:  # codecs with rules of their own: punycode, undefined
        raise SourceError(f"not {encoding} text ({error})") from error

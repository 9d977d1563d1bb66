"""Reading files: encodings, positions, and everything that is not a source file."""

from __future__ import annotations

import ast
import io
import os
import pickle
import socket
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllint.files.source import (
    SourceError,
    SourceFile,
    decode_source,
    read_source,
    source_from_bytes,
    source_from_text,
    syntax_problem,
)
from dllint.findings import Location

HERE = Path("module.py")


def read(tmp_path: Path, raw: bytes, name: str = "module.py") -> str:
    path = tmp_path / name
    path.write_bytes(raw)
    return read_source(path).text


def refusal(path: Path, **options: int) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read_source(path, **options)
    return caught.value


def test_utf8_is_the_default_and_line_ends_stay(tmp_path: Path) -> None:
    assert read(tmp_path, "a = 'é'\r\nb = 1\r".encode()) == "a = 'é'\r\nb = 1\r"


def test_byte_order_mark_is_noted_and_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "bom.py"
    path.write_bytes(b"\xef\xbb\xbfx = 1\n")
    source = read_source(path)
    assert (source.text, source.encoding) == ("x = 1\n", "utf-8-sig")
    assert source.to_bytes() == b"\xef\xbb\xbfx = 1\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"# coding: latin-1\nx = '\xe9'\n",
        b"#!/usr/bin/python\r\n# -*- coding: latin-1 -*-\r\nx = '\xe9'\r\n",
        b"\n# vim: set fileencoding=latin-1 :\nx = '\xe9'\n",
        b"#\xff\xff coding=iso-8859-1\nx = '\xe9'\n",
    ],
)
def test_declared_encoding_is_honoured(tmp_path: Path, raw: bytes) -> None:
    assert "x = 'é'" in read(tmp_path, raw)


def test_a_declaration_after_code_or_on_line_three_does_not_count(tmp_path: Path) -> None:
    assert source_from_bytes(b"x = 1\n# coding: latin-1\n", HERE).encoding == "utf-8"
    assert source_from_bytes(b"\n\n# coding: latin-1\n", HERE).encoding == "utf-8"


@pytest.mark.parametrize("encoding", ["cp1251", "shift_jis", "gbk", "euc-kr", "koi8-r"])
def test_round_trip_in_other_encodings(encoding: str) -> None:
    sample = {"cp1251": "привет", "koi8-r": "привет", "shift_jis": "日本", "gbk": "中文", "euc-kr": "한국"}[encoding]
    raw = f"# coding: {encoding}\nx = '{sample}'\n".encode(encoding)
    source = source_from_bytes(raw, HERE)
    assert sample in source.text
    assert source.to_bytes() == raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"x = '\xe9'\n", "not utf-8 text (byte 0xe9 at offset 5)"),
        (b"\xef\xbb\xbfx = '\xe9'\n", "not utf-8 text (byte 0xe9 at offset 8)"),
        (b"# coding: ascii\nx = '\xe9'\n", "not ascii text (byte 0xe9 at offset 21)"),
        (b"# coding: klingon\n", "declares an unknown encoding: 'klingon'"),
        (b"# coding: rot13\n", "declares an unknown encoding: 'rot13'"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "starts with the byte order mark of UTF-8"),
        (b"# coding: utf-16-le \nx = 1\n!", "not an encoding for source code"),
        ("x = 1".encode("utf-16"), "UTF-16 text"),
        (b"\x89PNG\r\n\0\0\0", "binary file (NUL byte at offset 6)"),
    ],
)
def test_what_is_not_text(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "module.py"
    path.write_bytes(raw)
    error = refusal(path)
    assert message in str(error)
    assert error.kind == "unreadable"


def test_missing_directory_and_broken_link(tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to("nowhere.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert str(refusal(tmp_path / "none.py")) == "no such file or directory"
    assert str(refusal(tmp_path)) == "is a directory"
    assert str(refusal(tmp_path / "link.py")) == "broken symbolic link"
    assert "symbolic links" in str(refusal(tmp_path / "loop.py"))
    assert "not a valid path" in str(refusal(Path("a\0b.py")))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "secret.py"
    path.write_text("x = 1\n")
    path.chmod(0)
    assert str(refusal(path)) == "permission denied"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_pipes_sockets_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert str(refusal(tmp_path / "pipe.py")) == "not a regular file"
    assert str(refusal(Path("/dev/zero"))) == "not a regular file"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.py"))
        assert refusal(tmp_path / "socket.py").kind == "unreadable"


def test_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.py"
    path.write_bytes(b"#" * 5_000_001)
    error = refusal(path)
    assert (str(error), error.kind) == ("larger than the limit of 5 MB", "limit")
    path.write_bytes(b"#" * 5_000_000)
    assert len(read_source(path).text) == 5_000_000
    assert refusal(path, max_bytes=10).kind == "limit"
    with pytest.raises(SourceError):
        source_from_text("#" * 11, HERE, max_bytes=10)


def test_display_is_relative_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert read_source(Path("pkg") / ".." / "pkg" / "a.py").display == "pkg/a.py"
    assert read_source(tmp_path / "pkg" / "a.py").path == tmp_path / "pkg" / "a.py"
    monkeypatch.chdir(tmp_path / "pkg")
    assert read_source(Path("a.py")).display == "a.py"
    (tmp_path / "b.py").write_text("")
    assert read_source(Path("..") / "b.py").display == (tmp_path / "b.py").as_posix()
    assert read_source(tmp_path / "b.py", display="<stdin>").display == "<stdin>"


def test_text_of_an_editor() -> None:
    source = source_from_text("\ufeffx = 1\n", HERE)
    assert (source.text, source.encoding) == ("x = 1\n", "utf-8-sig")
    assert source.digest == source_from_bytes(b"x = 1\n", HERE).digest
    with pytest.raises(SourceError, match="NUL"):
        source_from_text("x\0", HERE)


def test_lines_end_where_python_says() -> None:
    source = source_from_text("a = '\x0c'\r\nb = '\u2028 \x85'\rc = 1\n\nd = 2", HERE)
    assert [source.line_text(line) for line in range(7)] == [
        "",
        "a = '\x0c'",
        "b = '\u2028 \x85'",
        "c = 1",
        "",
        "d = 2",
        "",
    ]
    assert source.newline == "\r\n"
    assert [node.lineno for node in ast.parse(source.text).body] == [1, 2, 3, 5]


def test_ast_positions_become_code_points() -> None:
    text = "if x:\n\té = '日本' + f('🎉', y)\n"
    source = source_from_text(text, HERE)
    call = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    start, end = source.offset(call.lineno, call.col_offset), source.offset(call.end_lineno, call.end_col_offset)
    assert text[start:end] == "f('🎉', y)"
    place = source.location(call.lineno, call.col_offset, call.end_lineno, call.end_col_offset)
    assert place == Location("module.py", 2, 13, 2, 22)
    assert source.span(place) == (start, end)


def test_positions_past_the_end_are_taken_back() -> None:
    source = source_from_text("é = 1\n", HERE)
    assert source.offset(1, 99) == 5
    assert source.offset(9, 0) == 6
    assert source.location(9, 0, 9, 0) == Location("module.py", 2, 1, 2, 1)


def test_a_source_file_can_be_pickled() -> None:
    source = source_from_text("x = 1\ny = 2\n", HERE)
    assert source.line_starts == [0, 6, 12]
    copy = pickle.loads(pickle.dumps(source))
    assert (copy.text, copy.path, copy.digest, copy.line_starts) == (
        source.text,
        HERE.absolute(),
        source.digest,
        [0, 6, 12],
    )


def test_syntax_problems_have_a_place() -> None:
    assert syntax_problem("x = 1\n") is None
    assert syntax_problem("x = '\\d'\n") is None  # and no warning
    problem = syntax_problem("x = 1\ny = (\n")
    assert problem is not None
    assert (problem.line, problem.column, "never closed" in problem.message) == (2, 5, True)
    assert syntax_problem("x = '\ud800'\n") is not None
    deep = syntax_problem("x = " + "(" * 100_000)
    assert deep is not None


@given(st.text())
def test_every_offset_of_any_text_round_trips(text: str) -> None:
    source = source_from_text(text.replace("\0", ""), HERE)
    for offset in range(len(source.text) + 1):
        line, column = source.position(offset)
        assert source.span(Location("module.py", line, column, line, column)) == (offset, offset)
        before = source.text[source.line_starts[line - 1] : offset]
        if not before.endswith("\r"):
            assert source.offset(line, len(before.encode("utf-8", "surrogatepass"))) == offset


@given(
    st.binary() | st.binary().map(lambda raw: b"# coding: " + raw) | st.binary().map(lambda raw: b"\xef\xbb\xbf" + raw)
)
def test_random_bytes_are_read_or_refused(raw: bytes) -> None:
    for name in ("module.py", "book.ipynb"):
        try:
            source = source_from_bytes(raw, Path(name))
        except SourceError as error:
            assert str(error)
        else:
            assert source.line_text(1) is not None


@given(
    st.sampled_from(["utf-8", "UTF_8", "latin-1", "ascii", "cp1252", "utf-7", "idna", "punycode", "undefined", "hex"])
)
def test_any_codec_is_used_or_refused(name: str) -> None:
    raw = f"# coding: {name}\nx = 'a-b.c'\n".encode()
    try:
        text, encoding = decode_source(raw)
    except SourceError:
        return
    assert text.encode(encoding) == raw


PARTS = [b"# coding: latin-1", b"# x", b"x", b"\xe9", b"\n", b"\r\n", b"\x0c", b" ", b"\xef\xbb\xbf"]


@given(st.lists(st.sampled_from(PARTS)).map(b"".join))
def test_the_declaration_is_found_where_python_finds_it(raw: bytes) -> None:
    try:
        expected, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    except SyntaxError:
        return  # stricter than the compiler: it wants the lines before the declaration in UTF-8
    try:
        expected_text = raw.decode(expected)
    except UnicodeDecodeError:
        with pytest.raises(SourceError):
            decode_source(raw)
        return
    text, encoding = decode_source(raw)
    assert text == expected_text
    assert (encoding == "utf-8-sig") == (expected == "utf-8-sig")


@pytest.mark.parametrize("text", ["x = 1\ny = 2\n", "# \U0001f917 \udc80\r\nx = 'ä'\r\n", ""])
def test_a_packed_text_comes_back_as_it_was(text: str) -> None:
    source = SourceFile(Path("/p/train.py"), "train.py", text)
    starts = source.line_starts
    source.pack()
    assert source.characters == len(text)
    assert (source.text, source.line_starts) == (text, starts)
    source.pack()
    assert source.text == text

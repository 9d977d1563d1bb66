"""Which names libraries have no more, and since when: writes ``dllint/knowledge/library_names.txt``.

The wheels or source archives of the releases in ``library_names.toml`` are downloaded once (``--folder``, with what was
found in each library) and read without importing anything. A name counts that a module of an earlier
release binds, and that nothing in the newest one can give it. The release that is told is the first one read that
certainly lacks it; so a name is gone in it and all later ones.

``--verify PYTHON`` asks a Python in which the newest releases are installed whether any of the names exists after all,
as some libraries put names into their modules when they are imported. These are taken out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import tomllib
from library_modules import Release, read_release

from dllint.config.versions import version_key

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent / "dllint" / "knowledge" / "library_names.txt"
NEWEST = "*"
_VERSION = re.compile(r"-(\d+(?:\.\d+)*)")
HEADING = """\
# Names that libraries have no more, written by bench/library_names.py. A line "== LIBRARY PACKAGE" begins a library, as
# it is imported and installed. Then comes, for each of its modules, the release without some names, and these:
# "module release name name". A module that is gone is a name of its package; "." is the library itself.
"""
ALWAYS_UNREAD = {
    "torch": r"^torch/(_inductor|_dynamo|_functorch|_refs|_decomp|_prims|fx|onnx|ao|testing|_export|export|quantization"
    r"|package|jit|_higher_order_ops|include|_numpy|_vendor|_strobelight|distributed/\w+)/",
}
UNREAD = {**ALWAYS_UNREAD, "transformers": r"/models/\w+/(?!__init__)", "catalyst": r"/test_"}
_PLATFORMS = ("macosx_14_0_arm64", "macosx_11_0_arm64", "macosx_10_15_x86_64", "macosx_10_13_x86_64",
              "macosx_10_9_x86_64", "macosx_10_6_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64",
              "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64")  # fmt: skip
_PYTHONS = ("3.9", "3.7", "3.6", "3.11")
_PYTHONS_OF_NEWEST = ("3.12", "3.14")
_PUT_INTO = {"torch._C._VariableFunctions": "torch"}  # whose functions torch has as its own


def gone(releases: list[Release]) -> Iterator[tuple[str, str, str]]:
    """The modules and names that the last of some releases lacks, each with the first one that does, for good."""
    *earlier, newest = releases
    seen: set[str] = set()
    for release in reversed(earlier):
        for module in sorted(release.modules):
            if module in seen or not newest.has_no_module(module):
                continue
            seen.add(module)
            head, _, last = module.rpartition(".")
            if head in newest.modules and newest.certainly_lacks(head, last):
                yield head, last, _first_without(releases, head, last)
    for module in newest.modules:
        had = set().union(*(release.modules[module].own for release in earlier if module in release.modules))
        for name in sorted(had):
            if not _is_left_out(module, name) and newest.certainly_lacks(module, name):
                yield module, name, _first_without(releases, module, name)


def _is_left_out(module: str, name: str) -> bool:
    """Whether nobody imports such a name: that of a counter, a magic one, or a private one, but of torch's packages."""
    is_private = name.startswith("_") and not module.startswith("torch")
    return len(name) == 1 or name.startswith("__") or is_private


def _first_without(releases: list[Release], module: str, name: str) -> str:
    """The first release after which none has the name, or may have it."""
    first = releases[-1].version
    for release in reversed(releases):
        if not release.certainly_lacks(module, name):
            return first
        first = release.version
    raise AssertionError(f"{module}.{name} has never been")


def read_library(library: str, package: str, versions: list[str], folder: Path) -> list[Release]:
    """The releases of a library that can be read, in order."""
    found = []
    for version in versions:
        archive = download(package, version, folder)
        if archive is not None:
            name = _VERSION.search(archive.name)[1]  # type: ignore[index]
            left_out = UNREAD.get(library, "") if version != NEWEST else ALWAYS_UNREAD.get(library, "")
            found.append(read_release(library, name, archive, left_out))
    return sorted(found, key=lambda release: version_key(release.version))


def download(package: str, version: str, folder: Path) -> Path | None:
    """The archive of the last release that begins like a version; nothing where the index has none to be read."""
    place = folder / package / version.replace(NEWEST, "newest")
    place.mkdir(parents=True, exist_ok=True)
    wish = package if version == NEWEST else f"{package}=={version}.*"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(place)]
    platforms = [part for platform in _PLATFORMS for part in ("--platform", platform)]
    attempts = [
        *(["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms]
          for python in (_PYTHONS_OF_NEWEST if version == NEWEST else _PYTHONS)),
        [],
    ]  # fmt: skip
    for options in attempts:
        archives = sorted(place.iterdir())
        if archives:
            return archives[0]
        subprocess.run([*command, *options, wish], capture_output=True, check=False)
    print(f"no archive of {package} {version}", file=sys.stderr)
    return None


def written(library: str, package: str, releases: list[Release]) -> str:
    """The part of the table about one library."""
    lines: dict[tuple[str, str], set[str]] = {}
    for module, name, version in gone(releases):
        short = _PUT_INTO.get(module, module).removeprefix(library).lstrip(".") or "."
        lines.setdefault((short, version), set()).add(name)
    keys = sorted(lines, key=lambda key: (key[0], version_key(key[1])))
    return "\n".join([f"== {library} {package}", *(" ".join([*key, *sorted(lines[key])]) for key in keys)])


ASK = """
import importlib, importlib.metadata, json, sys, warnings
warnings.simplefilter("ignore")
library, package, names = json.load(sys.stdin)
key = lambda version: [int(part) for part in version.split(".")[:3] if part.isdigit()]
installed = key(importlib.metadata.version(package))
importlib.import_module(library)
asked, unread, wrong = 0, 0, []
for module, name, version in names:
    if key(version) > installed:
        continue
    try:
        found = hasattr(importlib.import_module(module), name)
    except Exception:
        unread += 1
        continue
    if not found:
        try:
            found = importlib.import_module(f"{module}.{name}") is not None
        except ImportError:
            pass
    asked += 1
    wrong += [f"{module}.{name}"] if found else []
print(json.dumps([asked, unread, wrong]))
"""


def verify(python: str, table: str, libraries: list[str] | None) -> str:
    """A table without the names that another Python has after all, as a library makes them when it is imported."""
    for part in table.split("\n== ")[1:]:
        first, *lines = part.splitlines()
        library, package = first.split(" ")
        if libraries and library not in libraries:
            continue
        names = []
        for line in lines:
            module, version, *found = line.split(" ")
            names += [(library if module == "." else f"{library}.{module}", name, version) for name in found]
        asked = json.dumps([library, package, names])
        done = subprocess.run([python, "-c", ASK], input=asked, capture_output=True, text=True, check=False)
        *_, last = (done.stdout or done.stderr).strip().splitlines()
        if done.returncode:
            print(f"{library}: not asked, {last}", flush=True)
            continue
        count, unread, wrong = json.loads(last)
        print(f"{library}: {count} names, {unread} in modules that cannot be imported, exist: {wrong}", flush=True)
        table = table.replace(part, _without(part, library, set(wrong)))
    return table


def _without(part: str, library: str, names: set[str]) -> str:
    """The lines about a library without some of its names."""
    first, *lines = part.splitlines()
    kept = []
    for line in lines:
        module, version, *found = line.split(" ")
        inside = library if module == "." else f"{library}.{module}"
        left = [name for name in found if f"{inside}.{name}" not in names]
        kept += [" ".join([module, version, *left])] if left else []
    return "\n".join([first, *kept, *([""] if part.endswith("\n") else [])])


def _part(asked: tuple[str, str, Path]) -> str:
    library, text, folder = asked
    package, _, versions = text.partition(":")
    kept = folder / f"{library}.txt"
    if kept.exists():
        return kept.read_text("utf-8")
    part = written(library, package, read_library(library, package, versions.split(), folder))
    kept.write_text(part, "utf-8")
    print(f"{library}: {len(part)} characters", file=sys.stderr, flush=True)
    return part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the archives are, or are downloaded to")
    parser.add_argument("--only", nargs="*", help="libraries to print instead of writing the table")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verify", metavar="PYTHON")
    options = parser.parse_args()
    if options.verify:
        TABLE.write_text(verify(options.verify, TABLE.read_text("utf-8"), options.only), "utf-8")
        return
    libraries = tomllib.loads((HERE / "library_names.toml").read_text("utf-8"))["libraries"]
    asked = [(library, text, options.folder) for library, text in sorted(libraries.items())]
    with ProcessPoolExecutor(options.jobs) as pool:
        parts = list(pool.map(_part, [each for each in asked if not options.only or each[0] in options.only]))
    if options.only:
        print("\n".join(parts))
    else:
        TABLE.write_text(HEADING + "".join(f"{part.strip()}\n" for part in parts), "utf-8")


if __name__ == "__main__":
    main()

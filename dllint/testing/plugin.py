"""The pytest plugin that runs fixtures: ``pytest_plugins = ["dllint.testing.plugin"]`` in the top ``conftest.py``.

Every file ``dlNNN_name.py`` below a folder ``fixtures`` is one test for its form, tests for each of its cases (as
written, in its variations and, if it is marked, with every doubt), and one that compares what its fixes
change in it with ``dlNNN_name.fixed.diff``, which ``--update`` writes. The rules are the built-in ones and those that
the ``rule-paths`` and ``plugins`` of the project's configuration add.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dllint.config.load import ConfigError, ConfigLoader
from dllint.config.resolve import rule_faults, rules_of
from dllint.patch import diff
from dllint.registry import RULE_FILE
from dllint.testing.cases import Case, Fixture, read_fixture
from dllint.testing.checking import as_written_faults, find_rules, variation_faults
from dllint.testing.doubts import DOUBTS, doubt_faults
from dllint.testing.fixing import fixed_diff, fixed_path
from dllint.testing.linting import Setup
from dllint.testing.marks import FixtureError
from dllint.testing.variations import NAMES


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dllint")
    group.addoption("--update", action="store_true", help="Rewrite the .fixed.diff files beside fixtures.")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
    """Collect a fixture as such, and not as a module of tests, which pytest takes a file for that is named to it."""
    collectors = yield
    if RULE_FILE.fullmatch(file_path.name) and "fixtures" in (folder.name for folder in file_path.parents):
        return [FixtureFile.from_parent(parent, path=file_path)]
    return collectors


class FixtureFile(pytest.File):
    """The tests of one fixture."""

    _known_setup: Setup | None = None

    def collect(self) -> Iterator[pytest.Item]:
        try:
            fixture = read_fixture(self.path)
        except (FixtureError, UnicodeDecodeError) as error:
            raise self.CollectError(str(error)) from error

        yield self._item("form", 1, fixture.faults)
        for case in fixture.cases:
            yield self._item(f"{case.slug}[as-written]", case.line, partial(self._as_written, fixture, case))
            yield self._item(f"{case.slug}[varied]", case.line, partial(self._varied, fixture, case))
            if case.is_marked():
                yield self._item(f"{case.slug}[doubt]", case.line, partial(self._doubted, fixture, case))
        yield self._item("fixed", 1, partial(self._fixed, fixture))

    def _item(self, name: str, line: int, run: Callable[[], Iterable[str]]) -> pytest.Item:
        item: pytest.Item = FixtureItem.from_parent(self, name=name, line=line, run=run)
        return item

    def _setup(self, fixture: Fixture) -> Setup:
        """What the fixture is linted with, worked out once."""
        if self._known_setup is None:
            try:
                config = ConfigLoader().load(fixture.path.parent)
                rules, faults = rules_of(config), rule_faults(config)
            except ConfigError as error:
                raise FixtureError(str(error)) from error
            if faults:
                raise FixtureError("\n".join(faults))
            self._known_setup = Setup(find_rules([fixture.code], rules))
        return self._known_setup

    def _as_written(self, fixture: Fixture, case: Case) -> Iterable[str]:
        return as_written_faults(case, self._setup(fixture).for_case(case.versions, case.explicit, case.notes))

    def _varied(self, fixture: Fixture, case: Case) -> Iterable[str]:
        return variation_faults(case, NAMES, self._setup(fixture).for_case(case.versions, case.explicit, case.notes))

    def _doubted(self, fixture: Fixture, case: Case) -> Iterable[str]:
        return doubt_faults(case, DOUBTS, self._setup(fixture).for_case(case.versions, case.explicit, case.notes))

    def _fixed(self, fixture: Fixture) -> Iterator[str]:
        path = fixed_path(fixture.path)
        wanted = fixed_diff(fixture, self._setup(fixture))
        present = path.read_text("utf-8") if path.exists() else ""
        if wanted == present:
            return
        if not self.config.getoption("--update"):
            yield f"{path.name} is not what the fixes change in the fixture (pytest --update rewrites it):"
            yield diff(present, wanted, path.name)
        elif wanted:
            path.write_text(wanted, "utf-8", newline="\n")
        else:
            path.unlink()


class FixtureItem(pytest.Item):
    """One test: it fails with the faults that ``run`` finds."""

    def __init__(self, *, line: int, run: Callable[[], Iterable[str]], **given: Any) -> None:
        super().__init__(**given)
        self._line = line
        self._run = run
        self.funcargs: dict[str, object] = {}  # other plugins (pytest-lsp 1.0) fail on tests that have none

    def runtest(self) -> None:
        if faults := list(self._run()):
            raise AssertionError("\n".join(faults))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertionError | FixtureError):
            return f"{self.path.name}:{self._line}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._line - 1, self.name

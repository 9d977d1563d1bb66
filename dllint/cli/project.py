"""From the paths of a command line to findings: which files, under which settings, linted together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from dllint.cli import streams
from dllint.cli.progress import ProgressBar
from dllint.config.load import Config, ConfigLoader
from dllint.config.resolve import listed_rules, resolve, rule_faults
from dllint.config.settings import Settings
from dllint.dataclass import dataclass
from dllint.files.discovery import find_files, is_project, project_files
from dllint.findings import Problem, Report, sort_key
from dllint.rule_table import Described


@dataclass(slots=True)
class Part:
    """Files that share a configuration, and what was found in them.

    ``is_whole`` says that the run covers the whole project of the configuration. If not, ``around`` are the other files
    of that project: those that import what is linted have a say in what is found. ``named`` are the files that were
    named one by one, and not by a folder: findings elsewhere that they have a part in are reported as well.
    """

    config: Config
    settings: Settings
    files: list[Path]
    is_whole: bool = False
    around: list[Path] = field(default_factory=list)
    named: frozenset[Path] = frozenset()
    report: Report = field(default_factory=Report)


@dataclass(slots=True)
class Project:
    """All that a command line names, in parts of one configuration each, and what could not be found."""

    parts: list[Part]
    problems: list[Problem] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        """The files of all parts."""
        return [file for part in self.parts for file in part.files]

    @property
    def rules(self) -> list[Described]:
        """The rules that take part, by code."""
        taking_part = {
            rule.code: rule
            for part in self.parts
            for rule in listed_rules(part.config)
            if rule.code in part.settings.enabled
        }
        return [taking_part[code] for code in sorted(taking_part)]


def find_project(
    paths: Sequence[str], loader: ConfigLoader, *, respect_excludes: bool = True, with_importers: bool = True
) -> Project:
    """Find the files that some paths stand for, and the settings of each.

    Args:
        paths: files and folders.
        loader: gives each file its configuration.
        respect_excludes: whether what the configuration excludes is left out.
        with_importers: whether the other files of their projects have a say in what is found.

    Raises:
        ConfigError: a configuration file cannot be used.
    """
    named: dict[Path, tuple[Config, list[Path]]] = {}  # by root of the project
    for path in sorted((Path(os.path.abspath(name)) for name in paths), key=lambda path: len(path.parts)):
        outer = (config for config, places in named.values() if any(place in path.parents for place in places))
        config = loader.load(path if os.path.isdir(path) else path.parent, next(outer, None))
        named.setdefault(config.root, (config, []))[1].append(path)
    problems: list[Problem] = []
    parts: dict[Path, Part] = {}
    for config, places in named.values():
        settings = resolve(config)
        found = find_files(places, exclude=settings.exclude, root=config.root, respect_excludes=respect_excludes)
        problems += found.problems
        for file in found.files:
            own = loader.load(file.parent, config)
            if own.root not in parts:
                parts[own.root] = Part(own, settings if own is config else resolve(own), [])
            parts[own.root].files.append(file)
    folders = [path for _, places in named.values() for path in places if os.path.isdir(path)]
    for root, part in parts.items():
        part.is_whole = any(root.is_relative_to(folder) for folder in folders)
        if root not in named and respect_excludes:  # so far only the configuration further up has excluded
            part.files = find_files(part.files, exclude=part.settings.exclude, root=root).files
        if with_importers and not part.is_whole:
            part.around = _around(part, loader, respect_excludes=respect_excludes)
            part.named = frozenset(part.files).intersection(path for _, places in named.values() for path in places)
    return Project(list(parts.values()), problems + _broken_rules(parts.values()))


def stdin_project(file: Path, loader: ConfigLoader, *, respect_excludes: bool = True) -> Project:
    """The project of one file that is read from standard input and need not exist. Raises ConfigError."""
    from dllint.files.globs import Globs

    config = loader.load(file.parent)
    settings = resolve(config)
    path = os.path.relpath(file, config.root).replace(os.sep, "/")
    is_excluded = respect_excludes and Globs(settings.exclude).matches(path)
    part = Part(config, settings, [] if is_excluded else [file])
    part.around = _around(part, loader, respect_excludes=respect_excludes)
    return Project([part], _broken_rules([part]))


def _around(part: Part, loader: ConfigLoader, *, respect_excludes: bool) -> list[Path]:
    """The other files of the project that some files belong to. Raises ConfigError."""
    if not part.files:
        return []
    folder = root = part.config.root
    here = Path.cwd()
    if root.is_relative_to(here) and is_project(here) and not loader.is_configured(root):
        folder = here  # a run over a tree of packages is one project
    found = project_files(folder, exclude=part.settings.exclude if respect_excludes else (), root=root)
    own = set(part.files)
    return [file for file in found if file not in own and loader.load(file.parent, part.config).root == root]


def _broken_rules(parts: Iterable[Part]) -> list[Problem]:
    """Rule files that cannot be used: all other rules are checked."""
    faults = dict.fromkeys(fault for part in parts for fault in rule_faults(part.config))
    return [Problem("config", fault) for fault in faults]


def lint(
    project: Project,
    *,
    jobs: int | None = None,
    cache: bool = True,
    overlay: Mapping[Path, str] | None = None,
    executor: str = "",
) -> None:
    """Fill in the report of each part. Raises ClusterError where the ``executor`` cannot be used."""
    from dllint.runner import lint_files

    bar = ProgressBar()
    total = len(project.files)
    before = 0
    try:
        for part in project.parts:

            def progress(done: int, _: int, before: int = before) -> None:
                bar(before + done, total)

            part.report = lint_files(
                part.files,
                part.settings,
                around=part.around,
                named=part.named,
                jobs=jobs,
                cache=cache,
                overlay=overlay,
                progress=progress,
                executor=executor,
            )
            before += len(part.files)
    finally:
        bar.close()


def merged(project: Project) -> Report:
    """The reports of all parts as one."""
    reports = [part.report for part in project.parts]
    timing: dict[str, float] = {}
    for report in reports:
        for name, seconds in report.timing.items():
            timing[name] = timing.get(name, 0.0) + seconds
    return Report(
        findings=sorted((finding for report in reports for finding in report.findings), key=sort_key),
        questions=sorted((finding for report in reports for finding in report.questions), key=sort_key),
        problems=project.problems + [problem for report in reports for problem in report.problems],
        files=sum(report.files for report in reports),
        cached=sum(report.cached for report in reports),
        suppressed=sum(report.suppressed for report in reports),
        baselined=sum(report.baselined for report in reports),
        held=sorted((held for report in reports for held in report.held), key=lambda held: sort_key(held.finding)),
        seconds=sum(report.seconds for report in reports),
        timing=timing,
        silences=[silence for report in reports for silence in report.silences],
    )


def presented(project: Project, overlay: Mapping[Path, str]) -> Report:
    """What there is to show: one finding for each root cause, and notes apart unless they are to be listed."""
    report = merged(project)
    listed = {id(finding) for part in project.parts if part.settings.lists_notes for finding in part.report.findings}
    found = report.findings
    report.notes = [finding for finding in found if finding.severity == "info" and id(finding) not in listed]
    report.findings = [finding for finding in found if finding.severity != "info" or id(finding) in listed]
    if len(found) < 2:
        return report
    from dllint.folding import folded
    from dllint.report.sources import SourceCache

    return folded(report, SourceCache(overlay))


def warn_of_idle_globs(project: Project) -> None:
    """Warn of globs under ``per-file-ignores`` that match no file, where the whole project was looked at."""
    for part in project.parts:
        for glob, _ in part.settings.per_file_ignores if part.is_whole else ():
            if not any(part.settings.is_in_glob(file, glob) for file in part.files):
                streams.warn(f"per-file-ignores: `{glob}` matches no file below {part.settings.root}")

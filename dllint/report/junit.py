"""``junit``: the XML that most CI servers show as test results."""

from __future__ import annotations

import re
from itertools import groupby
from xml.etree import ElementTree as Xml

from dllint.findings import Finding, Problem, Report
from dllint.report.context import Context
from dllint.report.text import explanation, one_line, place

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, context: Context) -> str:
    """A suite for each file with findings, a failed test for each finding, and an error for each problem.

    A finding of severity ``info`` is a passed test with output: CI servers know no milder failure. A clean run is one
    passed test, because several servers take an empty report for a broken one.
    """
    top = Xml.Element("testsuites", name="dllint")
    for path, group in groupby(report.findings, key=lambda finding: finding.location.path):
        suite = _suite(top, context.relative(path))
        for finding in group:
            _case(suite, finding, context)
    if report.problems:
        suite = _suite(top, "dllint")
        for problem in report.problems:
            _error(suite, problem)
    if not len(top):
        _test(_suite(top, "dllint"), f"no findings in {report.files} files", "dllint")
    _count(top, report.seconds)
    Xml.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(top, encoding="unicode") + "\n"


def _suite(top: Xml.Element, name: str) -> Xml.Element:
    return Xml.SubElement(top, "testsuite", name=_clean(name))


def _test(suite: Xml.Element, name: str, group: str) -> Xml.Element:
    return Xml.SubElement(suite, "testcase", name=_clean(name), classname=_clean(group), time="0")


def _case(suite: Xml.Element, finding: Finding, context: Context) -> None:
    path = context.relative(finding.location.path)
    where = place(finding.location)
    line, _ = context.sources.file_lines(finding.location)
    test = _test(suite, f"{finding.code} {finding.name} at {where}", path.removesuffix(".py").replace("/", "."))
    test.set("file", _clean(path))
    test.set("line", str(line))
    text = _clean("\n".join([where, *explanation(finding)]))
    if finding.severity == "info":
        Xml.SubElement(test, "system-out").text = text
        return
    message = _clean(one_line(finding.message))
    Xml.SubElement(test, "failure", message=message, type=finding.severity).text = text


def _error(suite: Xml.Element, problem: Problem) -> None:
    test = _test(suite, problem.path or problem.kind, "dllint")
    Xml.SubElement(test, "error", message=_clean(problem.message), type=problem.kind)


def _count(top: Xml.Element, seconds: float) -> None:
    for element in (top, *top):
        element.set("tests", str(len(element.findall(".//testcase"))))
        element.set("failures", str(len(element.findall(".//failure"))))
        element.set("errors", str(len(element.findall(".//error"))))
        element.set("skipped", "0")
    top.set("time", f"{seconds:.3f}")


def _clean(text: str) -> str:
    """``text`` without the characters that XML cannot hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", text)

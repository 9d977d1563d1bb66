"""Cast all doubts on the marked cases of all fixtures, and count by rule and doubt how many twins are still too sure.

python bench/doubts.py [CODE...] [--show DOUBT]
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from dllint.registry import load_rules, rule_files
from dllint.testing.cases import read_fixture
from dllint.testing.checking import find_rules
from dllint.testing.doubts import NAMES, twins_of
from dllint.testing.doubts.subject import Subject
from dllint.testing.linting import Setup

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def main() -> None:
    """Print the table: still too sure / twins."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", nargs="*", metavar="CODE", help="the rules, all by default")
    parser.add_argument("--show", choices=NAMES, help="print the code of the twins of a doubt that are still too sure")
    given = parser.parse_args()
    print("rule".ljust(6), *(name[:9].rjust(9) for name in NAMES))
    totals: dict[str, Counter[str]] = {"sure": Counter(), "all": Counter()}
    for path in rule_files(FIXTURES):
        code = path.name.partition("_")[0].upper()
        if not given.codes or code in given.codes:
            counts = count(path, given.show)
            print(row(code, counts))
            for key, counter in counts.items():
                totals[key].update(counter)
    print(row("all", totals))


def count(path: Path, show: str | None) -> dict[str, Counter[str]]:
    """How many twins of the cases of a fixture there are, and how many are too sure, by doubt."""
    fixture = read_fixture(path)
    setup = Setup(find_rules([fixture.code], load_rules()))
    sure: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for case in fixture.cases:
        subject = Subject(case, setup.for_case(case.versions, case.explicit))
        for name in NAMES if subject.claims else ():
            for twin in twins_of(subject, name):
                made[name] += 1
                faults = list(subject.faults(twin))
                sure[name] += bool(faults)
                if faults and name == show:
                    print(f"== {path.name}: {case.title}", *twin.files.values(), sep="\n")
    return {"sure": sure, "all": made}


def row(title: str, counts: dict[str, Counter[str]]) -> str:
    """One line of the table."""
    cells = (f"{counts['sure'][name]}/{counts['all'][name]}" if counts["all"][name] else "-" for name in NAMES)
    return " ".join([title.ljust(6), *(cell.rjust(9) for cell in cells)])


if __name__ == "__main__":
    main()

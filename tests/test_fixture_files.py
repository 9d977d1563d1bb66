"""Fixture files: their cases and directives, the faults of their form, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dllint.testing import FixtureError
from dllint.testing.cases import parse_fixture
from dllint.testing.variations import NAMES

GOOD = '''
"""A fixture."""
import os
# triggers-not-shown: foo, bar -- the same path

# case: one bug
# versions: torch=1.8, torchvision=0.9
# vary: no-tabs, no-crlf -- made up
print(1)  # DL190

# case: Two files
import a
# file: pkg/a.py
def f():
    return 2

# case: only named files
# select: explicit
# file: main.py
x = 3
# file: b.py
x = 4
'''


class TestFixtureFiles:
    path = Path("fixtures/loss/dl190_summed_loss.py")

    def test_parts(self) -> None:
        fixture = parse_fixture(GOOD, self.path)
        one, two, three = fixture.cases
        assert fixture.code == "DL190" and set(fixture.not_shown) == {"foo", "bar"}
        assert (one.slug, one.line) == ("one-bug", 6) and dict(one.versions) == {"torch": "1.8", "torchvision": "0.9"}
        assert set(one.unvaried) == {"tabs", "crlf"} and three.explicit and not two.explicit
        assert list(one.files) == ["main.py"] and list(two.files) == ["main.py", "pkg/a.py"]
        assert list(three.files) == ["main.py", "b.py"]

    def test_every_line_keeps_its_number_and_headers_are_blank(self) -> None:
        lines = GOOD.split("\n")
        for case in parse_fixture(GOOD, self.path).cases:
            for text in case.files.values():
                assert text.startswith('\n"""A fixture."""\nimport os\n')
                assert all(line in ("", lines[number]) for number, line in enumerate(text.split("\n")))
                assert "case:" not in text and "file:" not in text and "versions:" not in text

    def test_a_file_that_is_no_module_is_written_as_comments(self) -> None:
        text = "# case: one\nx = 1\n# file: docs/README.md\n#\n# Run:\n#     python main.py --x 1\n"
        (case,) = parse_fixture(text, self.path).cases
        assert list(case.files) == ["main.py"]
        assert case.notes == {"docs/README.md": "\nRun:\n    python main.py --x 1\n"}

    def test_form(self) -> None:
        assert parse_fixture(GOOD, self.path).faults() == []

    @pytest.mark.parametrize(
        ("old", "new", "fault"),
        [
            ("  # DL190", "", "no case is marked"),
            ("  # DL190", "  # todo: DL190", "no case is marked"),
            ("import a\n", "import a  # DL190\n", "1 cases without a mark"),
            ("import a\n", "import a  # todo: no DL190\n", "1 cases without a mark"),
            ("  # DL190", "  # DL190, DL191", "line 9: a mark of DL191, but only DL190 is run"),
            ("Two files", "one bug!", "2 cases are called 'one-bug'"),
        ],
    )
    def test_faults(self, old: str, new: str, fault: str) -> None:
        assert any(fault in found for found in parse_fixture(GOOD.replace(old, new), self.path).faults())

    def test_the_same_case_twice(self) -> None:
        again = "\n# case: another title\nx   =   3  # a comment\n# file: b.py\nx = (4)\n"
        faults = parse_fixture(GOOD + again.replace("title\n", "title\n# select: explicit\n"), self.path).faults()
        assert faults == ["line 24: 'another title' is the same as 'only named files' (line 17)"]
        assert parse_fixture(GOOD + again, self.path).faults() == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("import os\n", "no `# case: title`"),
            ("def f(:\n", ":1: "),
            ("# file: a.py\nx = 1\n# case: one\n", "before the first"),
            ("# case:\nx = 1\n", ":1: a case without a title"),
            ("# case: one\nx = 1\n# file: ../a.py\n", "is not the relative path of a file"),
            ("# case: one\nx = 1\n# file: a.png\n", "is not the relative path of a file"),
            ("# case: one\nx = 1\n# file: a.py\n# file: a.py\n", ":4: a.py is given twice"),
            ("# case: one\n# version: torch=1.8\n", "is none of the directives"),
            ("# case: one\n# versions: torch 1.8\n", "is not of the form torch=2.1"),
            ("# case: one\n# vary: no-method\n", "# vary: no-alias -- reason"),
            ("# case: one\n# vary: no-such -- reason\n", "there are no-alias"),
            ("# case: one\n# fix: stays\n", "is none of the directives"),
            ("# case: one\n# select: all\n", "is none of the directives"),
            ("# triggers-not-shown: foo\n# case: one\n", "needs a reason"),
        ],
    )
    def test_refused(self, text: str, message: str) -> None:
        with pytest.raises(FixtureError, match=message.replace("(", r"\(")):
            parse_fixture(text, self.path)

    def test_all_variations_can_be_left_out(self) -> None:
        text = "".join(f"# vary: no-{name} -- reason\n" for name in NAMES)
        (case,) = parse_fixture(f"# case: one\n{text}x = 1\n", self.path).cases
        assert set(case.unvaried) == set(NAMES)

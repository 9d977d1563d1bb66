"""A doubt about the library: the version that the project pins has no such bug."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.testing.doubts.subject import Subject, Twin


def pinned_to_another(subject: Subject) -> Iterator[Twin]:
    """The project runs with the versions of ``# right-with: torch=1.0``."""
    if subject.case.right_with:
        yield Twin(subject.files, subject.marks, True, subject.case.right_with)

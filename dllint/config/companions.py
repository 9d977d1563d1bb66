"""Releases that go together: what is known of the version of one package bounds those of others.

A Python 3.7 has no numpy after 1.21, a torchvision 0.11 needs torch 1.10, TensorFlow 1 an early Python. The table is
``dllint/knowledge/companions.toml``, which says where its numbers come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dllint.config.versions import SOME_VERSION, version_key

_ANY = "99999"
Companions = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By package, and by a version below which it stays: the packages that stay below a version then, and that version."""


def with_companions(
    limits: Mapping[str, str], fixed: Collection[str], lowest: Mapping[str, str], companions: Companions
) -> dict[str, str]:
    """The versions below which packages stay, and those below which others stay for their sake.

    Args:
        limits: by package, as far as they are known.
        fixed: packages whose limits stay what they are.
        lowest: the lowest versions that a project asks for: what forbids them is not meant for it. Where it asks for
            nothing else of a package, that may be of any later version which the Python has.
        companions: which releases go together.
    """
    found = dict(limits)
    pending = list(found)
    for package in pending:  # which grows meanwhile
        for other, below in _companions_of(package, found[package], companions).items():
            is_open = other in lowest and other not in limits and "python" not in (package, other)
            is_later = version_key(below) >= version_key(found.get(other, _ANY))
            is_forbidden = version_key(below) <= version_key(lowest.get(other, ""))
            if not (is_open or is_later or is_forbidden or other in fixed):
                found[other] = below
                pending.append(other)
    return found


def _companions_of(package: str, limit: str, companions: Companions) -> Mapping[str, str]:
    """What the first row of a package says that its limit does not exceed; a version that nobody tells says nothing."""
    rows = companions.get(package, {}) if limit != SOME_VERSION else {}
    reached = [row for row in rows if version_key(limit) <= version_key(row)]
    return rows[min(reached, key=version_key)] if reached else {}

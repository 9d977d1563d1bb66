"""What the images that containers begin with tell of releases: ``FROM pytorch/pytorch:1.7.1-cuda11.0``."""

from __future__ import annotations

import re
from collections.abc import Iterator

_IMAGE = re.compile(r"(?mi)^FROM:?\s+(?:[\w.-]+/)*pytorch:v?(\d+\.\d+(?:\.\d+)?)")
_OTHER_IMAGE = re.compile(r"(?mi)^FROM:?\s+(?:[\w.-]+/)*(python|cuda|tensorflow):v?(\d+\.\d+)")
_WITH_PYTHON_3_10 = (1, 13)  # the first `pytorch/pytorch` with it; those before have 3.7 or less, and 1.11 has 3.8
_SYSTEM = re.compile(r"(?mi)^FROM\b.*\bubuntu:?-?(\d\d)\.04")
_LATER_PYTHON = {16: "3.6", 18: "3.7", 20: "3.9", 22: "3.11", 24: "3.13"}  # than that of an Ubuntu of a year
_OTHER_PYTHON = re.compile(r"conda|deadsnakes|pyenv|mamba|\buv\b|python3\.\d|(?i:pytorch):")
_DEFAULT_OF_ARGUMENT = re.compile(r"(?m)^ARG\s+(\w+)=[\"']?([\w.-]+)")
_CONTAINER = re.compile(r"nvcr\.io/nvidia/pytorch:(\d\d)\.(\d\d)")
_BY_YEAR = {20: "1.8", 21: "1.12", 22: "1.14", 23: "2.3", 24: "2.7"}  # torch after `nvcr.io/nvidia/pytorch:22.02`


def told_by_image(text: str) -> Iterator[tuple[str, str]]:
    """The packages of which the image of a Dockerfile tells a version, and what it tells."""
    text = with_arguments(text)
    yield from ((name, f"={version}") for name, version in _OTHER_IMAGE.findall(text))
    later = _LATER_PYTHON.get(_year_of_system(text))
    if later and not _OTHER_PYTHON.search(text):  # `apt-get install python3-pip`
        yield "python", f"<{later}"
    for version in _IMAGE.findall(text):
        numbers = tuple(map(int, version.split(".")))
        yield from _of_month(numbers[0], numbers[1])
        if numbers[0] < 10:
            yield "torch", f"=={version}"
        if numbers < _WITH_PYTHON_3_10:
            yield "python", "<3.9" if version.startswith("1.11") else "<3.8"


def told_by_container(text: str) -> Iterator[tuple[str, str]]:
    """What a container of NVIDIA has, which a note or a script names: ``nvcr.io/nvidia/pytorch:23.10-py3``."""
    return (told for year, month in _CONTAINER.findall(text) for told in _of_month(int(year), int(month)))


def _of_month(year: int, month: int) -> Iterator[tuple[str, str]]:
    """What NVIDIA's container of a month has at most, by https://docs.nvidia.com/deeplearning/frameworks/support-matrix.

    Up to 23.04 it has Python 3.8 or less, and up to 24.10 Python 3.10.
    """
    if year in _BY_YEAR:
        yield "torch", f"<{_BY_YEAR[year]}"
        yield "python", "<3.9" if (year, month) < (23, 5) else "<3.11" if (year, month) < (24, 11) else "<3.13"


def with_arguments(text: str) -> str:
    """A Dockerfile with the defaults of its arguments: `FROM pytorch/pytorch:${TORCH}-cuda10.1`, `python=$PYTHON`."""
    for name, default in _DEFAULT_OF_ARGUMENT.findall(text):
        text = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", default, text)
    return text


def _year_of_system(text: str) -> int:
    """The year of the Ubuntu that an image has, or 0."""
    found = _SYSTEM.search(text)
    return int(found[1]) if found else 0

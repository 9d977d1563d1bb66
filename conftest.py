"""Fixtures are collected by the plugin that authors of other rules use; ``pytester`` tests the plugin itself."""

import os

import pytest

# Tests start hundreds of processes: where compiled files are not kept, each spends half a second on compiling dllint.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ("dllint.testing.plugin", "pytester")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes half of the time of all fixtures is slow: the doubtful twins of their cases."""
    for item in items:
        if item.name.endswith("[doubt]"):
            item.add_marker(pytest.mark.slow)

"""Fixtures are collected by the plugin that authors of other rules use; ``pytester`` tests the plugin itself."""

import os

# Tests start hundreds of processes: where compiled files are not kept, each spends half a second on compiling dllint.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ("dllint.testing.plugin", "pytester")

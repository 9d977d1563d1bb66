"""Fixtures are collected by the plugin that authors of other rules use; ``pytester`` tests the plugin itself."""

pytest_plugins = ("dllint.testing.plugin", "pytester")

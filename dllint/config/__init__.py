"""Configuration: which keys exist, where they are read from, and the settings that result."""

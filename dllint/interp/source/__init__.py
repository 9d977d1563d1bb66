"""The project as it is written: files, imports, positions, and the facts about libraries."""

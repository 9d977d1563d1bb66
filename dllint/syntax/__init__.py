"""The text of a module before its meaning: its statements, and the comments that speak to dllint."""

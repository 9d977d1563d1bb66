"""The abstract interpreter: reads a program without running it, and tells what happens in it as events."""

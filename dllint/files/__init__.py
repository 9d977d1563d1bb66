"""Files on disk: which ones, what is in them, and writing them back."""

"""``python -m dllint``."""

import sys

from dllint.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Profile one worker over files or folders: which functions take the time.

python bench/hotspots.py PATH... [-n ROWS]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
from pathlib import Path

from dllint.cli.project import find_project
from dllint.config.load import ConfigLoader
from dllint.worker import Worker, in_deep_thread


def main() -> None:
    """Analyze the files in this process, and print the profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("-n", "--rows", type=int, default=40, help="how many functions to show")
    given = parser.parse_args()
    profile = cProfile.Profile()
    for part in find_project(given.paths, ConfigLoader()).parts:
        worker = Worker(part.settings, Path.cwd())

        def analyse(worker: Worker = worker, files: list[Path] = part.files) -> None:
            for file in files:
                profile.runcall(worker.analyse, file)

        in_deep_thread(analyse, lambda _: None)
    for order in ("tottime", "cumtime"):
        pstats.Stats(profile, stream=sys.stdout).strip_dirs().sort_stats(order).print_stats(given.rows)


if __name__ == "__main__":
    main()

"""When Python looks for garbage: seldom, as syntax trees live long, and going through them costs more than it frees."""

from __future__ import annotations

import atexit
import gc


def collect_seldom() -> None:
    """Collect garbage each million objects: what is freed only by collecting is about 35 MB for so many.

    From the first import on: the modules of a run would be gone through 78 times while they are imported.
    """
    gc.set_threshold(1_000_000, 150, 100)


def relax_collector() -> None:
    """Collect garbage seldom, and never in what is there already.

    At the end of the process all memory goes at once, where Python would go through all of it twice more.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    gc.freeze()
    collect_seldom()

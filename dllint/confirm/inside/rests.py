"""When observing rests, so that the user's run takes hardly longer than without it.

Looking at a step of training takes the same time however long the step takes. So some steps in a row are looked at, as
closely as in a run that has time, and then as many are left out as it takes until all of it together was a small share
of the time. What happens seldom (what is made, loaded or saved, what schedules, a pass over a loader) is always told.
"""

from __future__ import annotations

import time

_SHARE = 0.022  # of the time of the run that observing may take; with what it costs the user's code, which finds the
# caches of the processor filled with other things (about a third of that), it is 0.03
_FREE = 1.0  # seconds that it may take beside that, in the first steps
_SAVED = 0.05  # seconds that a long step may leave for shorter ones
_AHEAD = 0.2  # seconds that it may take ahead of its time, for what may not come again
_ROUNDS = 16  # steps in a row that are looked at
_GLANCE, _APART = 2, 64  # the same, once in so many, so that what changes slowly is followed through long rests
_NEW_ROUNDS = 64  # the same, when something new begins: the budget of a run, for two optimizers and more


class Rests:
    """Keeps account of the time for observing."""

    def __init__(self, now: float) -> None:
        self.are_on = False  # what training repeats is not observed for now
        self._left = _FREE  # seconds
        self._most = _FREE  # seconds
        self._counted = now  # until when the share is in it
        self._rounds = _NEW_ROUNDS  # until the next rest
        self._is_new = True  # what is looked at
        self._passed = 0  # rounds in all rests

    def spend(self, seconds: float) -> None:
        """Note what observing has taken."""
        self._left -= seconds

    def has_time(self) -> bool:
        """Whether there is any left."""
        return self._now_left() > 0

    def may_be_disturbed(self) -> bool:
        """Whether a rest may end before its time."""
        return self._now_left() > -_AHEAD

    def count_round(self, *, is_settled: bool) -> None:
        """Note that something that training repeats has come to its end, and begin to rest if it was too expensive."""
        self._rounds -= 1
        if is_settled:
            self._most = _SAVED
        if self._is_new and self._rounds == 0:  # what is new is free
            self._is_new = False
            self._left = max(self._left, 0.0)
        if self._rounds <= 0 and not self.has_time():
            self.are_on = True
            self._rounds = 0

    def are_over(self) -> bool:
        """Note that such a thing was passed over. Returns whether to look at the next."""
        self._passed += 1
        return self.has_time() or (self._passed % _APART == 0 and self.may_be_disturbed())

    def end(self, *, for_new: bool = False) -> None:
        """Look at what is next; for longer where it is new, whatever was taken before."""
        self.are_on = False
        self._is_new = self._is_new or for_new
        self._rounds = max(self._rounds, _NEW_ROUNDS if for_new else _ROUNDS if self.has_time() else _GLANCE)

    def _now_left(self) -> float:
        now = time.perf_counter()
        self._left = min(self._left + _SHARE * (now - self._counted), self._most)
        self._counted = now
        return self._left

"""How many matches a search had lately, which decides how it is best read. A wrong number costs time, no more.

A search whose matches all fit on one page is read in one pass: a domain controller sends nothing before it has
everything, so whoever does not know how many there are would have all of a large domain read for one page of it.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable

_MOST_KEPT = 1000


class Counts:
    """The numbers of matches of the searches made last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[Hashable, int] = OrderedDict()

    def find(self, search: Hashable) -> int | None:
        """How many matches it had; None when that is not known."""
        with self._lock:
            count = self._counts.get(search)
            if count is not None:
                self._counts.move_to_end(search)
            return count

    def note(self, search: Hashable, count: int) -> None:
        """Remember how many matches it had, or has at least."""
        with self._lock:
            self._counts[search] = count
            self._counts.move_to_end(search)
            if len(self._counts) > _MOST_KEPT:
                self._counts.popitem(last=False)

"""What this process knows of the keys that are used: good for one state of access, thrown away with it.

The database is asked for its state before anything that is kept is believed, and it has another one after every change
that decides about a key (`access_state`). So revocation, deactivation and changed permissions count at the next request
in every process, however they were made. What depends on the time is judged on the facts at each request, by whoever
asks for them.
"""

from dataclasses import dataclass, field

from django.utils import timezone

from keys.people.account_status import CHECK_EVERY
from keys.permissions.access_state import State, read_state
from keys.permissions.effective import KeyFacts, find_key_by_lookup_id


@dataclass(frozen=True, slots=True)
class _Kept:
    """Facts read when the state had been seen already, by look-up id. Misses are not cached."""

    state: State | None = None
    keys: dict[str, KeyFacts] = field(default_factory=dict)


class _KeptKeys:
    """The facts of one state. Any thread may replace them: each compares with the state that it has read itself."""

    def __init__(self) -> None:
        self._kept = _Kept()

    def find(self, lookup_id: str) -> KeyFacts | None:
        state = read_state()
        if state is None:
            return find_key_by_lookup_id(lookup_id)
        kept = self._kept
        if kept.state != state:
            kept = self._kept = _Kept(state)
        facts = kept.keys.get(lookup_id)
        if facts is None or _may_have_been_looked_up(facts):
            facts = find_key_by_lookup_id(lookup_id)
            if facts is not None:
                kept.keys[lookup_id] = facts
        return facts


def _may_have_been_looked_up(facts: KeyFacts) -> bool:
    """Whether the owner's last look-up is so old that there should be a later one, which is no change of the state."""
    return facts.owner_connection_id is not None and timezone.now() - facts.owner_checked_at >= CHECK_EVERY


_keys = _KeptKeys()


def find_key(lookup_id: str) -> KeyFacts | None:
    """The key whose present or previous value has this look-up id, as it is now."""
    return _keys.find(lookup_id)

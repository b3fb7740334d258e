"""The searches the gateway offers, each a record of a few lines. How one is run is in `search`."""

from dataclasses import dataclass

from directory.ldap import Filter
from directory.shapes.kinds import FILTER_OF_NOUN, KINDS_OF_NOUN, Kind


@dataclass(frozen=True, slots=True)
class Search:
    """What a search is confined to, before anything the caller asks for."""

    name: str
    kinds: frozenset[Kind]
    condition: Filter


SEARCHES: dict[str, Search] = {
    noun: Search(name=noun, kinds=KINDS_OF_NOUN[noun], condition=FILTER_OF_NOUN[noun]) for noun in KINDS_OF_NOUN
}
"""The search of each kind's path, by noun."""

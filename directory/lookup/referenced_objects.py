"""The objects that values identify other than by name: where they are decides who may know of them."""

from collections.abc import Iterable, Iterator

from active_directory import Client, Equals, Filter, Or, Scope
from directory.lookup.domain_sid import domain_sid

_IN_ONE_FILTER = 50


class ReferencedObjects:
    """The present names of the objects that fulfil some conditions, each looked up once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: dict[str, list[str]] = {}

    def domain(self) -> str:
        """The SID of the domain."""
        return domain_sid(self._client)

    def names_of(self, condition: Filter) -> list[str]:
        """The names of the objects that fulfil it; none when the gateway's account may not read them."""
        if str(condition) not in self._names:
            self.look_up([condition])
        return self._names[str(condition)]

    def look_up(self, conditions: Iterable[Filter]) -> None:
        """Find the objects of many conditions at once, as far as they are not known yet."""
        unknown = {str(each): each for each in conditions if str(each) not in self._names}
        identities = [each for each in unknown.values() if isinstance(each, Equals)]
        for start in range(0, len(identities), _IN_ONE_FILTER):
            some = identities[start : start + _IN_ONE_FILTER]
            self._names.update({str(each): [] for each in some})
            for name, found in self._find(Or(*some)):
                if found in self._names:
                    self._names[found].append(name)
        for key, condition in unknown.items():
            if key not in self._names:
                self._names[key] = list(dict.fromkeys(name for name, _ in self._find(condition)))

    def _find(self, condition: Filter) -> Iterator[tuple[str, str]]:
        """The objects with their names, and each identity of theirs as the condition that looks for it."""
        client, wanted = self._client, ("objectGUID", "objectSid")
        for entry in client.search(client.default_naming_context, Scope.SUBTREE, condition, wanted, whole=True):
            for attribute in wanted:
                for value in entry.values(attribute):
                    yield entry.dn, str(Equals(attribute, value))

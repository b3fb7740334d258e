"""What a typed text finds in the directory, by operations alone: only what the person may see is found."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from console.directory.quick_search.query_parser import NAMED, PHONE_ATTRIBUTES, Interpretation, Typed
from console.directory.readable_attributes import readable_among
from console.page_context import PageContext
from core.errors import GatewayError
from directory.errors import AttributeNotReadable, ObjectNotFound

Record = Mapping[str, Any]

COLUMNS = ("title", "department", "telephoneNumber", "mail")
"""What tells one person from another of the same name."""
_READ = tuple(dict.fromkeys((*COLUMNS, *PHONE_ATTRIBUTES)))
_MOST = 100
_SHOWN = 25
_FEW = 5
"""With so many found or fewer, all are looked through for what no index leads to."""


@dataclass(slots=True)
class Found:
    """Objects that were found, each once; what was searched, as the ends of sentences; what kept it from being done.

    `is_cut` tells that there are more than are shown.
    """

    people: list[Record] = field(default_factory=list)
    others: list[Record] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    problem: GatewayError | None = None
    is_cut: bool = False

    @property
    def count(self) -> int:
        return len(self.people) + len(self.others)

    @property
    def ids(self) -> list[str]:
        return [str(record["id"]) for record in (*self.people, *self.others)]

    @property
    def only(self) -> Record | None:
        """The one object, if there is exactly one."""
        every = [*self.people, *self.others]
        return every[0] if len(every) == 1 else None

    def first(self, count: int) -> list[Record]:
        """The best of them."""
        return [*self.people, *self.others][:count]

    def add(self, records: Iterable[Record]) -> None:
        known = {record["id"] for record in (*self.people, *self.others)}
        for record in records:
            if record["id"] not in known:
                known.add(record["id"])
                (self.people if record["kind"] in ("user", "contact") else self.others).append(record)


def find_objects(page: PageContext, typed: Typed) -> Found:
    """What the directory's indexes lead to, the best first."""
    if not page.may("objects.search") or page.call.directory is None:
        return Found()
    find = _find_one if typed.names_one else _find_by_names
    return _found_with(page, typed, find)


def _found_with(page: PageContext, typed: Typed, find: Callable[[PageContext, Typed, Found], None]) -> Found:
    """What one way to search finds; without the attributes that the person may not read, if there are any."""
    found = Found()
    try:
        try:
            find(page, typed, found)
        except AttributeNotReadable:
            found, typed = Found(), typed.without(set(NAMED) - set(readable_among(page, NAMED)))
            find(page, typed, found)
    except GatewayError as refusal:
        found.problem = refusal
    return found


def _find_one(page: PageContext, typed: Typed, found: Found) -> None:
    if typed.name is not None:
        found.said.append(_("the object with this distinguished name"))
        try:
            query = {"base": typed.name, "scope": "base", "attributes": _read(typed)}
            found.add(page.perform("objects.search", query=query)["items"])
        except ObjectNotFound:
            pass
    elif (interpretation := typed.exact()) is not None:
        found.add(_search(page, typed, interpretation, found))


def _find_by_names(page: PageContext, typed: Typed, found: Found) -> None:
    is_telephone = bool(typed.digits) and typed.number is None
    for interpretation in () if is_telephone else (typed.employee(), typed.names()):
        if interpretation is not None:
            found.add(_search(page, typed, interpretation, found))
    for records in (found.people, found.others):
        records.sort(key=lambda record: not _is_called(record, typed.text))
        found.is_cut = found.is_cut or len(records) > _SHOWN
        del records[_SHOWN:]


def look_through(page: PageContext, typed: Typed, known: Collection[str]) -> Found:
    """What is found besides where no index leads; objects with the ids that are `known` are left out.

    The search counts as an expensive one, so that it takes turns with others and ends after a second.
    """

    def find(page: PageContext, typed: Typed, found: Found) -> None:
        interpretation = typed.looked_through()
        records = [] if interpretation is None else _search(page, typed, interpretation, found)
        found.add(
            record
            for record in records
            if record["id"] not in known and (not typed.digits or typed.has_telephone(record["attributes"]))
        )

    return _found_with(page, typed, find)


def wants_more(found: Found, typed: Typed) -> bool:
    """Whether looking through all names or numbers is worth a domain controller's time."""
    return found.problem is None and found.count <= _FEW and typed.looked_through() is not None


def _read(typed: Typed) -> str:
    return ",".join(name for name in _READ if name not in typed.unreadable)


def _search(page: PageContext, typed: Typed, interpretation: Interpretation, found: Found) -> list[Record]:
    found.said.append(interpretation.said)
    query = {
        "filter": str(interpretation.condition),
        "attributes": _read(typed),
        "sort": "name",
        "pageSize": str(_MOST),
    }
    answer = page.perform("objects.search", query=query)
    found.is_cut = found.is_cut or answer["nextCursor"] is not None or answer["truncated"]
    records: list[Record] = answer["items"]
    return records


def _is_called(record: Record, text: str) -> bool:
    """Whether the whole text is one of its names, so that it comes first."""
    account = record["account"] or {}
    names = (record["name"], account.get("samAccountName"), account.get("userPrincipalName"))
    return text.casefold() in {name.casefold() for name in (*names, *record["attributes"].get("mail", ())) if name}

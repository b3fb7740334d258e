"""The quick search over the directory and the gateway's own records.

It calls only operations, so people find only what they may see. An identifier leads straight to its object.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _

from active_directory import And
from console.directory.accounts import STATE_GROUPS
from console.directory.objects.form import Record
from console.directory.objects.page import readable_attributes
from console.directory.query_parser import PHONE_ATTRIBUTES, SEARCHED_ATTRIBUTES, Interpretation, ParsedQuery
from console.object_names import KINDS
from console.page_context import PageContext, page_at, page_url
from core.errors import Forbidden, GatewayError, NotFound
from core.text.vocabulary import declare_texts, noun_label
from directory.errors import AttributeNotReadable, ObjectNotFound
from directory.shapes.wording.value_words import common_name

_MAX_LENGTH = 256
_COLUMNS = ("title", "department", "telephoneNumber", "mail")
"""Attributes that distinguish people of the same name."""
_READ = tuple(dict.fromkeys((*_COLUMNS, "description", *PHONE_ATTRIBUTES)))
_TOLD = ("title", "department", "description")
"""Attributes that tell objects apart where one is asked for."""
_PAGE_SIZE = 100
_MAX_SHOWN = 25
_MIN_TYPED, _MAX_TYPED = 2, 8
"""From how many characters people are found while somebody types, and how many of them are shown."""
_FEW_RESULTS = 5
"""With at most so many objects found, a slow search without an index follows."""
_MAX_RECORDS = "10"
_CHECKED_FOR_REQUESTS = 3
"""For so many of the objects found, pending change requests are looked up."""
_NAMED_RECORDS = (
    ("API keys", "api keys", "api-keys.search", "key"),
    ("Roles", "roles", "roles.search", "role"),
    (
        "People of the gateway",
        "people of the gateway",
        "people.search",
        "person",
    ),
)
"""Records found by a part of their name: title, noun in a sentence, search operation and view."""
_MORE_PAGES = (
    ("Your account: password, second factor, sessions", "account", ""),
    ("New object: user, group, computer", "object-new", "objects.create"),
    ("Build a filter", "filter-builder", "objects.search"),
    ("Set up an integration", "key-new", "api-keys.create"),
    ("New run over an organizational unit", "run-new", "organization-units.plan-accounts"),
)
"""Pages outside the menu: title, view, and the operation that the person must be allowed to call."""
declare_texts(text for title, noun, *_rest in _NAMED_RECORDS for text in (title, noun))
declare_texts(title for title, *_rest in _MORE_PAGES)


@page_at("find", "find", get="objects.search")
def find(page: PageContext) -> HttpResponseBase:
    """The page, or for htmx its results, which load later: a large directory takes longer than a page may take."""
    text = page.query["q"].replace("\0", "")[:_MAX_LENGTH]
    typed = ParsedQuery.parse(text)
    part = page.requested_part
    context: dict[str, Any] = {"typed": typed, "sought": typed.text, "columns": _COLUMNS}
    if part == "looked-through":
        known = page.query["but"].split(",")
        more = _find_unindexed(page, typed, known)
        return page.render("directory/_find_unindexed.html", {**context, "more": more, "known": any(known)})
    is_now = part == "found" or not page.query.keys().isdisjoint({"now", "all"})
    if not typed.text or not (is_now or typed.is_identifier):
        return page.render("directory/find.html", context)
    found = SearchResults()
    if page.may("objects.search") and page.call.directory is not None:
        found = _search_readable(page, typed, _find_one if typed.is_identifier else _find_by_names)
    records, searched = _find_gateway_records(page, typed, found)
    objects = found.objects
    if typed.is_identifier and not records and len(objects) == 1:
        return page.redirect("object", object_id=objects[0]["id"])
    ids = [record["id"] for record in objects]
    context |= {
        "found": found,
        "ids": ids,
        "gateway_records": records,
        "searched": [*found.searched, *searched],
        "known": bool(objects or records),
        # A search without an index costs the domain controller, so it follows only a search with few results.
        "wants_more": found.problem is None and len(objects) <= _FEW_RESULTS and typed.by_phone_or_part() is not None,
        "more": _find_unindexed(page, typed, ids) if "all" in page.query else None,
    }
    return page.render("directory/_find_found.html" if part else "directory/find.html", context)


@page_at("find/people", "find-people", get="objects.search")
def find_while_typing(page: PageContext) -> HttpResponseBase:
    """The first people whose names begin as what is being typed, found by indexes alone."""
    typed = ParsedQuery.parse(page.query["q"].replace("\0", "")[:_MAX_LENGTH])
    found = SearchResults()
    if len(typed.text) >= _MIN_TYPED and page.call.directory is not None:
        found = _search_readable(page, typed, _find_one if typed.is_identifier else _find_by_names)
    people = [record for record in found.people if record["kind"] == "user"][:_MAX_TYPED]
    return page.render("directory/_find_while_typing.html", {"people": people, "found": found})


@page_at("directory/objects/suggestions", "object-suggestions", get="objects.search")
def suggestions(page: PageContext) -> HttpResponseBase:
    """The first objects of a `kind` whose names begin as what is typed into a form's field."""
    typed = ParsedQuery.parse(page.query["q"].replace("\0", "")[:_MAX_LENGTH])
    of_kind = KINDS.get(page.query["kind"], KINDS["any"])

    def find(page: PageContext, typed: ParsedQuery, found: SearchResults) -> None:
        by_name = typed.by_name()
        found.add(_search(page, typed, by_name._replace(condition=And(of_kind, by_name.condition)), found))

    found = SearchResults()
    if len(typed.text) >= _MIN_TYPED and page.call.directory is not None:
        found = _search_readable(page, typed, _find_one if typed.is_identifier else find)
    objects = found.objects[:_MAX_TYPED]
    return page.render("directory/_object_suggestions.html", {"objects": objects, "found": found, "columns": _TOLD})


def find_people(page: PageContext, text: str) -> list[Record]:
    """The accounts of people with this name or number, also by searches without an index if nothing else finds any."""
    typed = ParsedQuery.parse(text.replace("\0", "")[:_MAX_LENGTH])
    found = _search_readable(page, typed, _find_one if typed.is_identifier else _find_by_names)
    if not found.people and found.problem is None and typed.by_phone_or_part() is not None:
        found = _find_unindexed(page, typed, ())
    if found.problem is not None:
        raise found.problem
    return [record for record in found.people if record["kind"] == "user"]


@dataclass(slots=True)
class SearchResults:
    """The objects found, each once; descriptions of what was searched; the refusal of the search, if any.

    `is_cut` means that there are more objects than are shown.
    """

    people: list[Record] = field(default_factory=list)
    others: list[Record] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    problem: GatewayError | None = None
    is_cut: bool = False

    @property
    def objects(self) -> list[Record]:
        """All objects found, people first."""
        return [*self.people, *self.others]

    def add(self, records: Iterable[Record]) -> None:
        known = {record["id"] for record in self.objects}
        for record in records:
            if record["id"] not in known:
                known.add(record["id"])
                (self.people if record["kind"] in ("user", "contact") else self.others).append(record)


def _search_readable(
    page: PageContext, typed: ParsedQuery, find: Callable[[PageContext, ParsedQuery, SearchResults], None]
) -> SearchResults:
    """The results of a search, which is repeated without attributes that the person may not read, if it names any."""
    found = SearchResults()
    try:
        try:
            find(page, typed, found)
        except AttributeNotReadable:
            found, typed = (
                SearchResults(),
                typed.without_attributes(
                    set(SEARCHED_ATTRIBUTES) - set(readable_attributes(page, SEARCHED_ATTRIBUTES))
                ),
            )
            find(page, typed, found)
    except GatewayError as refusal:
        found.problem = refusal
    return found


def _find_one(page: PageContext, typed: ParsedQuery, found: SearchResults) -> None:
    if typed.distinguished_name is not None:
        found.searched.append(_("the object with this distinguished name"))
        with suppress(ObjectNotFound):
            query = {"base": typed.distinguished_name, "scope": "base", "attributes": _attributes_to_read(typed)}
            found.add(page.perform("objects.search", query=query)["items"])
    else:
        found.add(_search(page, typed, typed.by_identifier(), found))


def _find_by_names(page: PageContext, typed: ParsedQuery, found: SearchResults) -> None:
    """Search by indexes; objects whose whole name is the text come first."""
    if not typed.phone_digits or typed.employee_number is not None:  # else it is a telephone number
        for interpretation in (typed.by_employee_number(), typed.by_name()):
            found.add(_search(page, typed, interpretation, found))
    for records in (found.people, found.others):
        records.sort(key=lambda record: not _has_name(record, typed.text))
        found.is_cut = found.is_cut or len(records) > _MAX_SHOWN
        del records[_MAX_SHOWN:]


def _find_unindexed(page: PageContext, typed: ParsedQuery, known: Collection[str]) -> SearchResults:
    """Search without an index, leaving out objects with `known` ids.

    The gateway treats it as an expensive search: it queues with others and ends after a second.
    """

    def find(page: PageContext, typed: ParsedQuery, found: SearchResults) -> None:
        found.add(
            record
            for record in _search(page, typed, typed.by_phone_or_part(), found)
            if record["id"] not in known and (not typed.phone_digits or typed.has_phone_number(record["attributes"]))
        )

    return _search_readable(page, typed, find)


def _attributes_to_read(typed: ParsedQuery) -> str:
    return ",".join(name for name in _READ if name not in typed.unreadable)


def _search(
    page: PageContext, typed: ParsedQuery, interpretation: Interpretation | None, found: SearchResults
) -> list[Record]:
    """Search for one interpretation, and note in `found` what was searched and whether the result is cut."""
    if interpretation is None:
        return []
    found.searched.append(interpretation.description)
    query = {
        "filter": str(interpretation.condition),
        "attributes": _attributes_to_read(typed),
        "sort": "name",
        "pageSize": str(_PAGE_SIZE),
    }
    answer = page.perform("objects.search", query=query)
    found.is_cut = found.is_cut or answer["nextCursor"] is not None or answer["truncated"]
    records: list[Record] = answer["items"]
    return records


def _has_name(record: Record, text: str) -> bool:
    """Whether the whole text is one of the object's names."""
    account = record["account"] or {}
    names = (record["name"], account.get("samAccountName"), account.get("userPrincipalName"))
    return text.casefold() in {name.casefold() for name in (*names, *record["attributes"].get("mail", ())) if name}


class Hit(NamedTuple):
    """A page or record of the gateway: its label, the URL of its page, and a detail."""

    label: str
    address: str
    about: str = ""


def _find_gateway_records(
    page: PageContext, typed: ParsedQuery, objects: SearchResults
) -> tuple[list[tuple[str, list[Hit]]], list[str]]:
    """The hits by title, and descriptions of what was searched; `objects` are the directory's results."""
    found: list[tuple[str, Iterable[Hit]]] = [(_("Pages"), _find_pages(page, typed.text))]
    searched = [_("pages")]
    if typed.guid is not None:
        requests = [*_find_by_id(page, "change-requests.read", typed), *_find_pending(page, target=str(typed.guid))]
        records = _find_by_id(page, "operations.read", typed) if page.may("operations.read") else ()
        found += [(_("Requests"), requests), (_("Records of the log"), records)]
        searched.append(_("requests and records with this id"))
    elif not typed.is_identifier:
        for title, called, operation, view in _NAMED_RECORDS:
            if page.may(operation):
                found.append((_(title), _find_named(page, typed.text, operation, view)))
                searched.append(_(called))
        requests = [
            hit for each in objects.objects[:_CHECKED_FOR_REQUESTS] for hit in _find_pending(page, target=each["id"])
        ]
        is_word = " " not in typed.text  # it may be a user name
        requests += _find_pending(page, owner=typed.text) if is_word else ()
        log = _log_links(typed.text) if is_word and page.may("operations.search") else ()
        found += [(_("Requests"), requests), (_("In the log"), log)]
        searched.append(_("changes that wait for approval"))
    listed = ((title, list(hits)) for title, hits in found)
    return [(title, hits) for title, hits in listed if hits], searched


def _find_pages(page: PageContext, text: str) -> Iterator[Hit]:
    wanted = text.casefold()
    for entry in page.menu:
        if wanted in _(entry.label).casefold():
            yield Hit(_(entry.label), reverse(entry.view), _(entry.group))
    for label, view, operation in _MORE_PAGES:
        if wanted in _(label).casefold() and (not operation or page.may(operation)):
            yield Hit(_(label), page_url(view))
    for group, states in STATE_GROUPS.items() if page.may("accounts.search") else ():
        for name, shown in states.items():
            if wanted in _(shown.label).casefold():
                about = _("Accounts · {group}").format(group=_(group))
                yield Hit(_(shown.label), page_url("account-state", state=name.value), about)


def _find_named(page: PageContext, text: str, operation: str, view: str) -> Iterator[Hit]:
    for item in page.perform(operation, query={"name": text, "pageSize": _MAX_RECORDS})["items"]:
        name = item.get("name") or item["username"]
        about = item.get("displayName") or item.get("roleName") or item.get("description") or ""
        yield Hit(name, page_url(view, **{f"{view}_id": item["id"]}), about)


def _find_by_id(page: PageContext, operation: str, typed: ParsedQuery) -> Iterator[Hit]:
    """The change request or log record with the id, if it exists and the person may see it."""
    with suppress(NotFound, Forbidden):
        yield _as_hit(page.perform(operation, id=typed.guid))


def _find_pending(page: PageContext, **wanted: str) -> Iterator[Hit]:
    """Pending change requests about an object (`target`) or by a person (`owner`)."""
    query = {**wanted, "status": "pending", "pageSize": _MAX_RECORDS}
    yield from map(_as_hit, page.perform("change-requests.search", query=query)["items"])


def _as_hit(found: Mapping[str, Any]) -> Hit:
    """A change request or log record, labelled by its target."""
    name = common_name((found["target"] or {}).get("distinguishedName")) or found["operation"]
    view, state = ("change", found["status"]) if "status" in found else ("log-record", found["outcome"])
    return Hit(name, reverse(f"console:{view}", args=[found["id"]]), f"{found['operation']}, {noun_label(state)}")


def _log_links(text: str) -> Iterator[Hit]:
    """Links into the log by what the text may name there. The log is searched only when one is followed."""
    log = page_url("log")
    yield Hit(_("What {name} did").format(name=text), f"{log}?{urlencode({'owner': text})}")
    yield Hit(_("The request with the id {id}").format(id=text), f"{log}?{urlencode({'requestId': text})}")

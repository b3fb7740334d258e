"""What a typed text finds in the gateway itself: pages, keys, roles, people, requests, records. By operations alone."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.directory.account_states import STATES
from console.directory.quick_search.objects import Found
from console.directory.quick_search.query_parser import Typed
from console.page_context import PageContext, page_address
from console.shared.names import common_name
from core.errors import Forbidden, NotFound
from core.text.vocabulary import noun_label

_MOST: Final = "10"
_ASKED_ABOUT: Final = 3
"""So many of the objects found are looked for among the changes that wait."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Something of the gateway: what it is called, where it is shown, what to know of it."""

    label: str
    address: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """The hits of one kind that were found."""

    title: str
    hits: list[Hit]


def find_gateway_records(page: PageContext, typed: Typed, objects: Found) -> tuple[list[Kind], list[str]]:
    """What was found, by kind, and what was searched; `objects` are those of the directory that were found before."""
    found: list[Kind] = [Kind(_("Pages"), list(_pages(page, typed.text)))]
    said = [_("pages")]
    if typed.guid is not None:
        found.append(Kind(_("Requests"), [*_request(page, typed), *_waiting_for(page, [str(typed.guid)])]))
        found.append(Kind(_("Records of the log"), list(_record(page, typed))))
        said.append(_("requests and records with this id"))
    elif not typed.names_one:
        for title, called, operation, view, argument in _NAMED:
            if page.may(operation):
                found.append(Kind(_(title), list(_named(page, typed.text, operation, view, argument))))
                said.append(_(called))
        found.append(Kind(_("Requests"), list(_requests(page, typed.text, objects))))
        found.append(Kind(_("In the log"), list(_log(page, typed.text))))
        said.append(_("changes that wait for approval"))
    return [kind for kind in found if kind.hits], said


_NAMED: Final = (
    (gettext_noop("API keys"), gettext_noop("api keys"), "api-keys.search", "key", "key_id"),
    (gettext_noop("Roles"), gettext_noop("roles"), "roles.search", "role", "role_id"),
    (
        gettext_noop("People of the gateway"),
        gettext_noop("people of the gateway"),
        "people.search",
        "person",
        "person_id",
    ),
)
"""What has a name of which a part is searched for: what it is called as a title and in a sentence, the operation that
does it, and the page of one.
"""
_FURTHER: Final = (
    (gettext_noop("Your account: password, second factor, sessions"), "account", ""),
    (gettext_noop("New object: user, group, computer"), "object-new", "objects.create"),
    (gettext_noop("Build a filter"), "filter-builder", "objects.search"),
    (gettext_noop("Set up an integration"), "key-new", "api-keys.create"),
    (gettext_noop("New run over an organizational unit"), "run-new", "organization-units.plan-accounts"),
)
"""Pages beside those of the menu, each with the operation that it is for."""


def _pages(page: PageContext, text: str) -> Iterator[Hit]:
    wanted = text.casefold()
    for entry in page.menu:
        if wanted in _(entry.label).casefold():
            yield Hit(_(entry.label), reverse(entry.view), _(entry.group))
    for label, view, operation in _FURTHER:
        if wanted in _(label).casefold() and (not operation or page.may(operation)):
            yield Hit(_(label), reverse(f"console:{view}"))
    if page.may("accounts.search"):
        for group, states in STATES.items():
            for name, shown in states.items():
                if wanted in _(shown.label).casefold():
                    about = _("Accounts · {group}").format(group=_(group))
                    yield Hit(_(shown.label), reverse("console:account-state", args=[name.value]), about)


def _named(page: PageContext, text: str, operation: str, view: str, argument: str) -> Iterator[Hit]:
    for item in page.perform(operation, query={"name": text, "pageSize": _MOST})["items"]:
        name = item.get("name") or item["username"]
        about = item.get("displayName") or item.get("roleName") or item.get("description") or ""
        yield Hit(name, reverse(f"console:{view}", kwargs={argument: item["id"]}), about)


def _request(page: PageContext, typed: Typed) -> Iterator[Hit]:
    """The request with the id."""
    assert typed.guid is not None
    with suppress(NotFound, Forbidden):
        request = page.perform("change-requests.read", id=typed.guid)
        yield _as_hit(request, "change", request["status"])


def _requests(page: PageContext, text: str, objects: Found) -> Iterator[Hit]:
    """What waits to change one of the first objects found, and what somebody of this user name has asked for."""
    yield from _waiting_for(page, [str(record["id"]) for record in objects.first(_ASKED_ABOUT)])
    if " " not in text:
        yield from _pending(page, owner=text)


def _waiting_for(page: PageContext, targets: Iterable[str]) -> Iterator[Hit]:
    for target in targets:
        yield from _pending(page, target=target)


def _pending(page: PageContext, **wanted: str) -> Iterator[Hit]:
    query = {**wanted, "status": "pending", "pageSize": _MOST}
    for request in page.perform("change-requests.search", query=query)["items"]:
        yield _as_hit(request, "change", request["status"])


def _record(page: PageContext, typed: Typed) -> Iterator[Hit]:
    """The record of the log with the id."""
    if page.may("operations.read"):
        with suppress(NotFound, Forbidden):
            record = page.perform("operations.read", id=typed.guid)
            yield _as_hit(record, "log-record", record["outcome"])


def _as_hit(found: Mapping[str, Any], view: str, state: str) -> Hit:
    """A change request or a record of the log, by the object it is about."""
    name = common_name((found["target"] or {}).get("distinguishedName")) or found["operation"]
    address = reverse(f"console:{view}", args=[found["id"]])
    return Hit(name, address, f"{found['operation']}, {noun_label(state)}")


def _log(page: PageContext, text: str) -> Iterator[Hit]:
    """Ways into the log by what the text may name there; nothing is searched before one is taken."""
    if not page.may("operations.search") or " " in text:
        return
    log = page_address("log")
    yield Hit(_("What {name} did").format(name=text), f"{log}?{urlencode({'owner': text})}")
    yield Hit(_("The request with the id {id}").format(id=text), f"{log}?{urlencode({'requestId': text})}")

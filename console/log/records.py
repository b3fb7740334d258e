"""The operations log: found by all of its filters, exported as it was found, record by record, and changes reverted."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext as _

from audit.model_changes.descriptions import names_of_changes
from audit.models import OPEN_OUTCOMES, Outcome, Reversible
from console.log.chain import chain_state
from console.log.periods import PRESETS, for_field, with_bounds, with_said_period, with_zone
from console.page_context import PageContext, console_page, page_address
from console.shared.downloads import download, download_paths
from console.shared.durations import seconds_since
from core.errors import GatewayError, NotFound
from core.operation import operations
from directory.shapes.kinds import Kind

_LESS_COMMON = (
    *("owner", "keyName", "operation", "attribute", "value", "raisesAccess", "target", "requestId", "callId", "runId"),
)
"""Filters that are folded away while they are not used."""
_FILTERS = ("from", "to", "outcome", "onlyChanges", "q", *_LESS_COMMON)
_OF_ONE = ("runId", "callId", "requestId")
"""Filters that unfold a run or a batch."""
_INDEXED = ("target", "owner", "keyName", "operation", "requestId", "callId", "runId")
"""Filters by which records are found at once, however old."""
_SUBJECTS = ("target", "owner", "keyName", "q")
"""What evidence is about: one of these has to be named."""
_PRINTED = 1000


@console_page(get="operations.search")
def log(page: PageContext) -> HttpResponseBase:
    shown = page.query
    explicit = with_bounds(with_said_period(shown), indexed=_INDEXED)
    if explicit != shown:  # the pages after this one are of the same time then
        return page.redirect_to(f"{page_address('log')}?{urlencode(explicit)}")
    query = with_zone(shown)
    if not any(name in query for name in _OF_ONE):
        query.setdefault("fold", "true")
    found, problem = None, None
    try:
        found = page.perform("operations.search", query={"pageSize": "50", **query})
    except GatewayError as refusal:
        if refusal.status != 400:  # a filter that makes no sense is shown beside its field
            raise
        problem = refusal
    return page.render(
        "log/log.html",
        {
            "found": found,
            "problem": problem,
            "filters": _FILTERS,
            "chain": chain_state(page),
            "shown": {**shown, **{name: for_field(shown[name]) for name in ("from", "to") if name in shown}},
            "outcomes": list(Outcome),
            "operations": sorted({*(item.name for item in operations()), *names_of_changes()}),
            "presets": [(label, f"{shown.get('q', '')} {said}".strip()) for label, said in PRESETS],
            "more_is_open": any(name in query for name in _LESS_COMMON),
        },
    )


@console_page(get="operations.search")
def evidence(page: PageContext) -> HttpResponseBase:
    """What the filters find, all values included, on a page to be printed: for one object, person or key."""
    asked = with_zone(page.query)
    query = {name: value for name, value in asked.items() if name not in ("cursor", "pageSize", "fold")}
    if not any(name in query for name in _SUBJECTS):
        raise NotFound
    found = page.perform("operations.search", query={**query, "pageSize": str(_PRINTED)})
    named = next((item["target"]["distinguishedName"] for item in found["items"] if item["target"]), None)
    context = {
        "records": found["items"][::-1],
        "is_cut": found["nextCursor"] is not None,
        "shown": query,
        "subject": named if "target" in query else None,
        "chain": chain_state(page),
        "now": timezone.now(),
    }
    return page.render("log/evidence.html", context)


@console_page("POST")
def verify(page: PageContext) -> HttpResponseBase:
    """Have the whole log verified; the page follows what comes of it."""
    if not page.perform("operations.verify")["began"]:
        messages.info(page.request, _("The log is being verified already."))
    return page.redirect_to(f"{page_address('log')}#chain")


@console_page(get="operations.read-chain")
def chain(page: PageContext) -> HttpResponseBase:
    return page.render("log/_chain.html", {"chain": chain_state(page)})


@console_page(get="operations.search")
def export(page: PageContext, form: str) -> HttpResponseBase:
    """What the filters find, all of it, as a file."""
    called = f"operations-{timezone.now():%Y-%m-%d}"
    return download(page, "operations.search", form, called=called, query=with_zone(page.query))


@console_page(get="operations.read")
def record(page: PageContext, record_id: UUID) -> HttpResponseBase:
    """A record. The page of an open one asks for itself, and is left as it is while the record is open."""
    about = _about(page, record_id)
    if about["is_open"] and page.is_partial:
        return HttpResponse(status=204)
    return page.render("log/log_record.html", about)


def _about(page: PageContext, record_id: UUID) -> dict[str, Any]:
    """What the pages of a record show of it."""
    found = page.perform("operations.read", id=record_id)
    target, here = found["target"], page.call.directory
    return {
        "record": found,
        "is_open": found["outcome"] in OPEN_OUTCOMES,
        "waited": seconds_since(found["at"]),
        "chain": chain_state(page),
        "is_object": bool(target and target["id"] and target["kind"] in list(Kind)),
        "may_revert": _may_revert(page, found),
        "is_elsewhere": found["directory"] != (here.name if here else None),
    }


def _may_revert(page: PageContext, record: Mapping[str, Any]) -> bool:
    """Whether to offer it: not of a record that nobody can trust, nor of a change that was taken back already."""
    is_possible = record["reversible"] != Reversible.NONE and "revertedBy" not in record
    return is_possible and "doubt" not in record and page.may("operations.revert")


@console_page(post="operations.revert")
def revert(page: PageContext, record_id: UUID) -> HttpResponseBase:
    """The inverse change: what it would do, and doing it."""
    about = _about(page, record_id)
    try:
        if page.request.method != "POST":
            about["preview"] = page.perform("operations.revert", query={"dryRun": "true"}, id=record_id)
            return page.render("log/log_revert.html", about)
        page.answer("operations.revert", id=record_id, reason=page.form.get("reason"))
    except GatewayError as refusal:
        return page.render("log/log_revert.html", {**about, "problem": refusal})
    return page.redirect(
        "log-record", record_id=record_id, said=_("Reverted. The inverse change has a record of its own.")
    )


urls = [
    path("log/", log, name="log"),
    path("log/evidence", evidence, name="log-evidence"),
    path("log/verify", verify, name="log-verify"),
    path("log/chain", chain, name="log-chain"),
    *download_paths("log/export", export, "log"),
    path("log/<uuid:record_id>", record, name="log-record"),
    path("log/<uuid:record_id>/revert", revert, name="log-revert"),
]

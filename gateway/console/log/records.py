"""The operations log: found by all of its filters, exported as it was found, record by record, and changes reverted."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from audit.administration.descriptions import names_of_changes
from audit.models import Outcome, Reversible
from directory.shapes.kinds import Kind
from gateway.console.log.chain import chain_state
from gateway.console.page_context import Visit, page
from gateway.core.errors import GatewayError
from gateway.core.operation import find_operation, operations
from gateway.core.streams import StreamFormat
from gateway.surfaces.streams import stream_response

_LESS_COMMON = ("target", "requestId", "runId")
"""Filters that are folded away while they are not used: links lead to them."""
_PRESETS = {"The last hour": timedelta(hours=1), "24 hours": timedelta(days=1), "7 days": timedelta(days=7)}


@page(get="operations.search")
def log(visit: Visit) -> HttpResponseBase:
    query = _with_zone(visit.query)
    found, problem = None, None
    try:
        found = visit.perform("operations.search", query={"pageSize": "50", **query})
    except GatewayError as refusal:
        if refusal.status != 400:  # a filter that makes no sense is shown beside its field
            raise
        problem = refusal
    now = timezone.now().astimezone(UTC)
    return visit.render(
        "log/log.html",
        {
            "found": found,
            "problem": problem,
            "chain": chain_state(visit),
            "outcomes": Outcome.choices,
            "operations": sorted({*(item.name for item in operations()), *names_of_changes()}),
            "presets": {label: f"{now - span:%Y-%m-%dT%H:%M}" for label, span in _PRESETS.items()},
            "more_is_open": any(name in query for name in _LESS_COMMON),
        },
        status=problem.status if problem else 200,
    )


def _with_zone(given: Mapping[str, str]) -> dict[str, str]:
    """The filters with moments in UTC: a browser's field gives neither a zone nor, most of the time, seconds.

    A minute that is named as the end is meant to its end.
    """
    query = dict(given)
    for name, rest in (("from", timedelta()), ("to", timedelta(minutes=1, microseconds=-1))):
        text = query.get(name, "")
        moment = _parse(text)
        if moment is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC) + (rest if text.count(":") == 1 else timedelta())
            query[name] = moment.isoformat()
    return query


def _parse(text: str) -> Any:
    try:
        return parse_datetime(text)
    except ValueError:  # well written, but no moment: the operation says so
        return None


@page(get="operations.search")
def export(visit: Visit, form: StreamFormat) -> HttpResponseBase:
    """What the filters find, all of it, as a file."""
    exporting = replace(visit, call=replace(visit.call, stream_as=form))
    records = exporting.perform("operations.search", query=_with_zone(visit.query))
    response = stream_response(find_operation("operations.search"), visit.request, records)
    name = f"operations-{timezone.now():%Y-%m-%d}.{'csv' if form is StreamFormat.CSV else 'ndjson'}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@page(get="operations.read")
def record(visit: Visit, record_id: UUID) -> HttpResponseBase:
    return visit.render("log/log_record.html", _about(visit, record_id))


def _about(visit: Visit, record_id: UUID) -> dict[str, Any]:
    """What the pages of a record show of it."""
    found = visit.perform("operations.read", id=record_id)
    target, here = found["target"], visit.call.directory
    return {
        "record": found,
        "is_object": bool(target and target["id"] and target["kind"] in list(Kind)),
        "may_revert": found["reversible"] != Reversible.NONE and visit.may("operations.revert"),
        "is_elsewhere": found["directory"] != (here.name if here else None),
    }


@page(post="operations.revert")
def revert(visit: Visit, record_id: UUID) -> HttpResponseBase:
    """The inverse change: what it would do, and doing it."""
    about = _about(visit, record_id)
    if visit.request.method != "POST":
        try:
            preview = visit.perform("operations.revert", query={"dryRun": "true"}, id=record_id)
        except GatewayError as refusal:
            return visit.render("log/log_revert.html", {**about, "problem": refusal}, status=refusal.status)
        return visit.render("log/log_revert.html", {**about, "preview": preview})
    try:
        visit.answer("operations.revert", id=record_id, reason=visit.form.get("reason"))
    except GatewayError as refusal:
        return visit.render("log/log_revert.html", {**about, "problem": refusal}, status=refusal.status)
    messages.success(visit.request, "Reverted. The inverse change has a record of its own.")
    return visit.redirect("log-record", record_id=record_id)


urls = [
    path("log/", log, name="log"),
    path("log/export.ndjson", export, {"form": StreamFormat.NDJSON}, name="log-ndjson"),
    path("log/export.csv", export, {"form": StreamFormat.CSV}, name="log-csv"),
    path("log/<uuid:record_id>", record, name="log-record"),
    path("log/<uuid:record_id>/revert", revert, name="log-revert"),
]

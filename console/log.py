"""The operations log: search and export, evidence to print or download, single records, the chain, and reverts."""

import json
import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _

from audit import verify_evidence
from audit.chain.walk import KEY_IS_MISSING
from audit.model_changes.descriptions import change_operations
from audit.models import OPEN_OUTCOMES, Outcome, Reversible
from console.page_context import PageContext, page_at, page_url
from console.shared.lists import download, downloads_at
from console.shared.wording import log_record_facts, seconds_since
from core.errors import GatewayError, NotFound
from core.operation import operations
from core.text.messages import translated
from core.text.vocabulary import capitalized, texts_by_name
from directory.shapes.kinds import Kind
from directory.shapes.wording.change_words import describe_change

_RUN_OR_BATCH = ("requestId", "callId", "runId")
"""Filters that name one run or batch, so that its records are listed one by one."""
_INDEXED = ("target", "owner", "keyName", "operation", *_RUN_OR_BATCH)
"""Filters with an index: they are fast without a time."""
_LESS_COMMON = (*_INDEXED, "attribute", "value", "raisesAccess")
"""Filters that the page folds away while unused."""
_FILTERS = ("from", "to", "outcome", "onlyChanges", "q", *_LESS_COMMON)
_SUBJECTS = ("target", "owner", "keyName", "q", *_RUN_OR_BATCH)
"""Filters of which evidence needs at least one: an object, a person, a key, a run or a request."""
_MAX_PRINTED = 1000


@page_at("log/", "log", get="operations.search")
def log(page: PageContext) -> HttpResponseBase:
    shown = page.query
    explicit = _limit_slow_search(extract_period(shown))
    if explicit != shown:  # fixed in the URL, so that the next pages cover the same time
        return page.redirect_to(f"{page_url('log')}?{urlencode(explicit)}")
    query = with_utc_times(shown)
    if not any(name in query for name in _RUN_OR_BATCH):
        query.setdefault("fold", "true")  # a run or a batch is one line unless it is asked for
    found, problem = None, None
    try:
        found = page.perform("operations.search", query={"pageSize": "50", **query})
    except GatewayError as refusal:
        if refusal.status != 400:  # 400 is shown beside the filter's field
            raise
        problem = refusal
    return page.render(
        "log/log.html",
        {
            "found": found,
            "problem": problem,
            "filters": _FILTERS,
            "has_evidence": any(shown.get(name) for name in _SUBJECTS),
            "chain": chain_state(page),
            "shown": {**shown, **{name: datetime_field_value(shown[name]) for name in ("from", "to") if name in shown}},
            "outcomes": list(Outcome),
            "operations": sorted({*(item.name for item in operations()), *change_operations()}),
            "presets": [(f"{shown.get('q', '')} {period}".strip(), label) for period, label in _PERIODS.items()],
            "more_is_open": any(name in query for name in _LESS_COMMON),
        },
    )


@page_at("log/evidence", "log-evidence", get="operations.search")
def evidence(page: PageContext) -> HttpResponseBase:
    """The records of one object, person or key with all their values, on a page to print; oldest first."""
    query = _evidence_query(page)
    found = page.perform("operations.search", query={**query, "pageSize": str(_MAX_PRINTED)})
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


@page_at("log/evidence.json", "log-evidence-file", get="evidence.read")
def evidence_file(page: PageContext) -> HttpResponseBase:
    """The same records as a file, which `verify_evidence.py` verifies."""
    found = page.perform("evidence.read", query={**_evidence_query(page), "pageSize": str(_MAX_PRINTED)})
    text = json.dumps(found, ensure_ascii=False, indent=1)
    return _attachment(text, f"evidence-{timezone.now():%Y-%m-%d}.json", "application/json")


@page_at("log/verify_evidence.py", "log-evidence-verifier", get="evidence.read")
def evidence_verifier(page: PageContext) -> HttpResponseBase:  # noqa: ARG001 - as of every page
    """The program that verifies evidence."""
    return _attachment(Path(verify_evidence.__file__).read_bytes(), "verify_evidence.py", "text/x-python")


def _evidence_query(page: PageContext) -> dict[str, str]:
    """The filters of evidence; raises NotFound without a subject."""
    asked = with_utc_times(page.query)
    query = {name: value for name, value in asked.items() if name not in ("cursor", "pageSize", "fold")}
    if not any(name in query for name in _SUBJECTS):  # otherwise it would have the newest part of the whole log
        raise NotFound
    return query


def _attachment(content: str | bytes, name: str, content_type: str) -> HttpResponse:
    disposition = content_disposition_header(as_attachment=True, filename=name)
    return HttpResponse(content, content_type=content_type, headers={"Content-Disposition": disposition})


@page_at("log/verify", "log-verify", "POST")
def verify(page: PageContext) -> HttpResponseBase:
    """Start a verification of the whole log; the page polls for its result."""
    if not page.perform("operations.verify")["began"]:
        messages.info(page.request, _("The log is being verified already."))
    return page.redirect_to(f"{page_url('log')}#chain")


@page_at("log/chain", "log-chain", get="operations.read-chain")
def chain(page: PageContext) -> HttpResponseBase:
    return page.render("log/_chain.html", {"chain": chain_state(page)})


@downloads_at("log/export", "log", get="operations.search")
def export(page: PageContext, file_format: str) -> HttpResponseBase:
    """All matching records as a file; in CSV with their changes in words."""
    return download(
        page,
        "operations.search",
        file_format,
        file_name=f"operations-{timezone.now():%Y-%m-%d}",
        query=with_utc_times(page.query),
        cells={"changes": lambda record: "; ".join(map(str, describe_change(log_record_facts(record)).details))},
    )


@page_at("log/<uuid:record_id>", "log-record", get="operations.read")
def record(page: PageContext, record_id: UUID) -> HttpResponseBase:
    """One record. The page of an unfinished one polls and gets 204 until the record is completed."""
    about = _record_context(page, record_id)
    if about["is_open"] and page.is_partial:
        return HttpResponse(status=204)
    return page.render("log/log_record.html", about)


def _record_context(page: PageContext, record_id: UUID) -> dict[str, Any]:
    """The template context of a record's pages."""
    found = page.perform("operations.read", id=record_id)
    target, here = found["target"], page.call.directory
    is_reversible = found["reversible"] != Reversible.NONE and "revertedBy" not in found
    return {
        "record": found,
        "is_open": found["outcome"] in OPEN_OUTCOMES,
        "waited": seconds_since(found["at"]),
        "chain": chain_state(page),
        "is_object": bool(target and target["id"] and target["kind"] in list(Kind)),
        # A revert writes the old values back, and those of a doubtful record cannot be trusted.
        "may_revert": is_reversible and "doubt" not in found and page.may("operations.revert"),
        "is_elsewhere": found["directory"] != (here.name if here else None),
    }


@page_at("log/<uuid:record_id>/revert", "log-revert", post="operations.revert")
def revert(page: PageContext, record_id: UUID) -> HttpResponseBase:
    """Preview the inverse change, then make it."""
    about = _record_context(page, record_id)
    try:
        if not page.is_post:
            about["preview"] = page.perform("operations.revert", query={"dryRun": "true"}, id=record_id)
            return page.render("log/log_revert.html", about)
        page.perform("operations.revert", id=record_id, reason=page.form.get("reason"))
    except GatewayError as refusal:
        return page.render("log/log_revert.html", {**about, "problem": refusal})
    return page.redirect(
        "log-record", record_id=record_id, message=_("Undone. The inverse change has a record of its own.")
    )


SEALED_WITHIN = timedelta(minutes=1)
"""A worker seals every two seconds, so older unsealed records mean that none is running."""


class ChainState(NamedTuple):
    """The state of the chain as a badge, and the answer of `operations.read-chain`.

    `badge` is the class `good`, `warn` or `bad`.
    """

    badge: str
    label: str
    explanation: str
    chain: dict[str, Any]


def chain_state(page: PageContext) -> ChainState | None:
    """The state of the log's chain; None for people who may not read the log."""
    chain = page.perform_if_admitted("operations.read-chain")
    return None if chain is None else ChainState(*_judge_chain(chain), chain)


def _judge_chain(chain: dict[str, Any]) -> tuple[str, str, str]:
    """Badge, label and explanation; the gravest finding wins."""
    verification, oldest = chain["lastVerification"], parse_datetime(chain["oldestUnsealedAt"] or "")
    if chain["missing"]:
        return "bad", _("Records are missing"), f"{capitalized(translated(chain['missing']))}."
    if chain["refused"]:
        text = _("Records that the gateway did not make: {count}. They get no seal.")
        return "bad", _("Tampered with"), text.format(count=chain["refused"])
    if verification and verification["finding"]:
        is_unknown = verification["finding"].startswith(KEY_IS_MISSING)
        verdict = _("Cannot be verified") if is_unknown else _("Tampered with")
        return (
            "bad",
            verdict,
            _("The last verification found: {finding}.").format(finding=translated(verification["finding"])),
        )
    if oldest and timezone.now() - oldest > SEALED_WITHIN:
        return "warn", _("Not sealed"), _("New records are not being sealed. A worker does that: is one running?")
    if chain["head"] is None:
        return "good", _("Empty"), _("No seal yet: the first is made as soon as there is something to seal.")
    return "good", _("Sealed"), _("All records are sealed, but those of the last seconds.")


_PERIODS = texts_by_name(
    {
        "last hour": "The last hour",
        "today": "Today",
        "last 7 days": "7 days",
        "this month": "This month",
        "last month": "Last month",
    }
)
"""Periods offered beside the filters, by the English words that `q` understands in every language."""
_GERMAN_PERIOD = re.compile(
    r"\b(?:heute|gestern"
    r"|(?:dies|letzt|vergangen)e[rsnm]? (?:\d{1,3} )?(?:stunden?|tagen?|wochen?|monate?n?|jahre?[ns]?))\b",
    re.IGNORECASE,
)
_GERMAN = {
    "heute": "today",
    "gestern": "yesterday",
    "dies": "this",
    "letzt": "last",
    "vergangen": "last",
    "stunde": "hour",
    "tag": "day",
    "woche": "week",
    "monat": "month",
    "jahr": "year",
}
"""The beginnings of German words, with the English words for them."""
_PERIOD = re.compile(
    r"\b(?:today|yesterday|(?:this|last) (?:hour|week|month|year)|last (\d{1,3}) (hour|day|week|month|year)s?)\b",
    re.IGNORECASE,
)


def extract_period(query: Mapping[str, str]) -> dict[str, str]:
    """The filters with the period in `q` as `from` and `to`: "ada last month" becomes `q=ada` and a time."""
    given = dict(query)
    if "q" in given:
        given["q"] = _GERMAN_PERIOD.sub(_in_english, given["q"])
    match = _PERIOD.search(given.get("q", ""))
    if match is None:
        return given
    rest = " ".join((given["q"][: match.start()] + given["q"][match.end() :]).split())
    begins, ends = _period(match, timezone.now().astimezone(UTC))
    given |= {
        "q": rest,
        "from": _format_minute(begins),
        "to": _format_minute(ends - timedelta(minutes=1)) if ends else "",
    }
    return {name: value for name, value in given.items() if value}


def _in_english(period: re.Match[str]) -> str:
    words = period[0].lower().split()
    told = [next((said for begin, said in _GERMAN.items() if word.startswith(begin)), word) for word in words]
    return " ".join([*told[:-1], f"{told[-1]}s"] if len(told) > 2 else told)


def _limit_slow_search(query: Mapping[str, str]) -> dict[str, str]:
    """The filters, limited to the last 31 days if nothing else narrows them: words and values have no index."""
    is_slow = any(name in query for name in ("q", "attribute", "value"))
    if not is_slow or "from" in query or any(name in query for name in _INDEXED):
        return dict(query)
    since = timezone.now().astimezone(UTC).replace(hour=0, minute=0) - timedelta(days=31)
    return {**query, "from": _format_minute(since)}


def _period(match: re.Match[str], now: datetime) -> tuple[datetime, datetime | None]:
    """The start of a period and its end, None while it is running."""
    words = match[0].lower().split()
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if match[1]:
        return _before(now, int(match[1]), match[2].lower()), None
    if words == ["today"]:
        return day, None
    if words == ["yesterday"]:
        return day - timedelta(days=1), day
    begins = {
        "hour": now - timedelta(hours=1),
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "year": day.replace(month=1, day=1),
    }[words[1]]
    if words[0] == "this" or words[1] == "hour":
        return begins, None
    if words[1] == "week":
        return begins - timedelta(days=7), begins
    before = (begins - timedelta(days=1)).replace(day=1)
    return before.replace(month=1) if words[1] == "year" else before, begins


def _before(now: datetime, count: int, unit: str) -> datetime:
    """So many units ago; in a month that is too short for the day, its last one."""
    if unit not in ("month", "year"):
        return now - count * timedelta(**{f"{unit}s": 1})
    year, month = divmod(now.year * 12 + now.month - 1 - count * (12 if unit == "year" else 1), 12)
    return now.replace(year=year, month=month + 1, day=min(now.day, monthrange(year, month + 1)[1]))


def with_utc_times(given: Mapping[str, str]) -> dict[str, str]:
    """The filters with times in UTC: a browser's datetime-local field sends no zone and usually no seconds.

    A minute given as the end is included up to its last microsecond.
    """
    query = dict(given)
    for name, rest in (("from", timedelta()), ("to", timedelta(minutes=1, microseconds=-1))):
        text = query.get(name, "")
        moment = _parse_moment(text)
        if moment is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC) + (rest if text.count(":") == 1 else timedelta())
            query[name] = moment.isoformat()
    return query


def datetime_field_value(text: str) -> str:
    """A time in UTC as the value of a datetime-local field; any other text unchanged."""
    moment = _parse_moment(text)
    if moment is None or moment.tzinfo is None:
        return text
    try:
        return moment.astimezone(UTC).isoformat(timespec="minutes").removesuffix("+00:00")
    except OverflowError:  # in UTC it is in no year: the operation refuses it
        return text


def _format_minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}"


def _parse_moment(text: str) -> datetime | None:
    try:
        return parse_datetime(text)
    except ValueError:  # well-formed, but no such day or time: the operation refuses it
        return None

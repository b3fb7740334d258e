"""Reviewing and deciding several change requests together; each one is decided and recorded by itself.

Among two hundred changes of one import, nobody must overlook the two that differ. What the majority does is the rule;
a change that does something else, or something more, is an exception with reasons in words.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import Field, model_validator
from typing_extensions import Self, TypedDict

from approvals.models import ChangeRequest, Status
from approvals.review import decisions
from approvals.review.deciders import ConflictChecker, hidden_reason
from approvals.secrets import takeable_by
from approvals.shapes import ChangeRequestJson, TogetherItemJson, line_as_json
from audit import log
from audit.model_changes.descriptions import find_audited_model
from audit.model_changes.recording import recorded
from core.call import Call
from core.errors import GatewayError
from core.operation import SIGNED_IN, Effect, rest_operation
from core.shapes import COMMA_SEPARATED, KEPT_PROBLEM, Body, Guid, Id, Query, documented_as, example
from core.text.messages import message
from core.text.times import schedule_in_words
from core.text.vocabulary import noun_label, risk_words
from directory.shapes.wording.change_words import ChangeFacts, change_facts, kind_words
from directory.shapes.wording.labels import label_of
from directory.shapes.wording.value_words import assigned_words, current_words, is_list
from keys.sign_in.confirmation import ConfirmedBody, confirm, decision_purpose, needs_confirmation, needs_passkey
from operations.approvals.change_requests.lines import in_line_of
from operations.approvals.change_requests.requests import (
    DECIDE,
    Comment,
    find_visible,
    renderer_for,
    require_decidable,
    visible_requests,
)

MAX_REQUESTS = 500
"""How many requests can be reviewed or decided at once."""
_SHOWN_VALUES = 3
"""How many of an attribute's new values are listed."""
_NAME_ATTRIBUTES = frozenset({"distinguishedname", "name", "cn"})
"""Attributes that differ for every object, so that different values are no exception."""

_Key = TypeVar("_Key", bound=Hashable)
Ids = Annotated[tuple[Guid, ...], COMMA_SEPARATED, Field(max_length=MAX_REQUESTS)]


class ReadTogether(Query):
    """Which requests: by their own ids, or all that are in the same line of the inbox as one of them."""

    ids: Ids = Field((), description="Requests, by id.")
    group_of: Ids = Field((), description="All requests in the same line of the inbox as each of these.")
    status: Status | None = Field(None, description="Only those in this state.")


class GivenValueJson(TypedDict):
    value: str
    count: int


class CommonJson(TypedDict):
    """An attribute that some of the changes write: in how many, and what they give it, the most frequent first.

    `distinct` is how many different values they give it. `current` and `distinctCurrent` are the same for the values
    that it has so far; they are left out of new objects, and of members, whose changes list only the difference.
    """

    attribute: str
    label: str
    count: int
    values: list[GivenValueJson]
    distinct: int
    current: list[GivenValueJson]
    distinctCurrent: int


class TogetherJson(TypedDict):
    """Several requests, those that differ from the others first. `total` is how many there are, beyond the limit too.

    `statuses` counts them by status; `union` is everything that those shown would write. `codeNeeded` is whether
    approving takes a code of the reader's second factor: one for all of them. `passkeyNeeded` is whether
    deciding some of them takes a passkey. `passwords` are those whose generated password waits for the reader.
    """

    total: int
    statuses: dict[Status, int]
    union: list[CommonJson]
    items: list[TogetherItemJson]
    truncated: bool
    codeNeeded: bool
    passkeyNeeded: bool
    passwords: list[Id]


@rest_operation(
    "change-requests.read-together",
    "GET change-requests/together",
    "Read several change requests together",
    permission=SIGNED_IN,
)
def read_together(call: Call, *, query: ReadTogether) -> TogetherJson:
    """Read several change requests together: everything they would change, and which are not like the others.

    At most 500, the oldest first. Ids of requests that you may not see are left out.
    """
    chosen = chosen_requests(call, query)
    statuses: dict[Status, int] = {}
    for status in chosen.order_by().values_list("status", flat=True):
        statuses[Status(status)] = statuses.get(Status(status), 0) + 1
    shown = chosen if query.status is None else chosen.filter(status=query.status)
    rows = list(shown.order_by("id")[: MAX_REQUESTS + 1])
    truncated, rows = len(rows) > MAX_REQUESTS, rows[:MAX_REQUESTS]
    render = renderer_for(call)
    rendered = [render(row) for row in rows]
    members = [_member_of(row, record) for row, record in zip(rows, rendered, strict=True)]
    differs = _exceptions_of(members)
    conflicts = ConflictChecker()
    items = [
        _item(call, row, record, differs.get(row.id, []), conflicts) for row, record in zip(rows, rendered, strict=True)
    ]
    return {
        "total": sum(statuses.values()) if query.status is None else statuses.get(query.status, 0),
        "statuses": statuses,
        "union": _union_of(members),
        "items": sorted(items, key=lambda item: not item["differs"]),
        "truncated": truncated,
        "codeNeeded": call.may(DECIDE) and needs_confirmation(call.person.id),
        "passkeyNeeded": any(
            item["mayReject"] and needs_passkey(call, item["changeRequest"]["risk"]) for item in items
        ),
        "passwords": [str(row.id) for row in chosen.filter(takeable_by(call.person.id)).order_by("id")[:MAX_REQUESTS]],
    }


def chosen_requests(call: Call, query: ReadTogether) -> QuerySet[ChangeRequest]:
    """The requests that the query selects and the caller may see."""
    visible = visible_requests(call)
    wanted = Q(id__in=query.ids)
    for member in visible.filter(id__in=query.group_of):
        wanted |= Q(id__in=in_line_of(member).values("id"))
    return visible.filter(wanted)


def _item(
    call: Call, row: ChangeRequest, record: ChangeRequestJson, differs: list[str], conflicts: ConflictChecker
) -> TogetherItemJson:
    hindrance: str | None = None
    may_reject = False
    if row.status != Status.PENDING or row.expires_at <= timezone.now():
        hindrance = message("It does not wait any more.")
    elif row.requester_id == call.person.id:
        hindrance = message("It is your own request.")
    elif not call.may(DECIDE):
        hindrance = message("You do not decide changes.")
    elif why := conflicts.reason_against(call.person.id, row) or hidden_reason(call, row):
        hindrance = why
    else:
        may_reject = True
        if decisions.needs_two(row) and row.first_approved_by_id == call.person.id:
            hindrance = message("You approved it already: somebody else has to approve it too.")
    line = line_as_json(call, row, record)
    return {
        **line,
        "protected": row.protected,
        "differs": differs,
        "mayApprove": hindrance is None,
        "mayReject": may_reject,
        "hindrance": hindrance,
    }


@dataclass(frozen=True, slots=True)
class _Member:
    """A change to be compared with others."""

    id: UUID
    risk: str
    protected: bool
    change: ChangeFacts
    reason: str | None
    schedule: str
    current: dict[str, str]
    """The values so far, in words, of attributes whose change lists all of them."""


def _member_of(row: ChangeRequest, record: ChangeRequestJson) -> _Member:
    change = change_facts(
        row.operation,
        record["changes"],
        {"distinguishedName": row.target_dn},
        kind=row.target_kind,
        references=record["references"],
        own=row.directory_id is None,
    )
    whole = {
        each.attribute.lower(): current_words(each, change.named)
        for each in change.changes
        if change.action != "create" and (change.action == "delete" or not is_list(each))
    }
    return _Member(
        id=row.id,
        risk=row.risk,
        protected=row.protected,
        change=change,
        reason=row.reason,
        schedule=schedule_in_words(row.due_at, row.revert_at, row.revert_after) or _("at once and for good"),
        current=whole,
    )


def _union_of(members: Sequence[_Member]) -> list[CommonJson]:
    """All attributes that the changes write, the most frequent first."""
    given: dict[str, Counter[str]] = {}
    current: dict[str, Counter[str]] = defaultdict(Counter)
    names: dict[str, str] = {}
    for member in members:
        for each in member.change.changes:
            key = each.attribute.lower()
            names.setdefault(key, each.attribute)
            given.setdefault(key, Counter())[assigned_words(each, member.change.named)] += 1
        for name, value in member.current.items():
            current[name][value] += 1
    found: list[CommonJson] = [
        {
            "attribute": names[key],
            "label": label_of(names[key]),
            "count": values.total(),
            "values": _most_frequent(values),
            "distinct": len(values),
            "current": _most_frequent(current[key]),
            "distinctCurrent": len(current[key]),
        }
        for key, values in given.items()
    ]
    return sorted(found, key=lambda each: (-each["count"], each["label"].lower()))


def _most_frequent(values: Counter[str]) -> list[GivenValueJson]:
    return [{"value": value, "count": count} for value, count in values.most_common(_SHOWN_VALUES)]


def _exceptions_of(members: Sequence[_Member]) -> dict[UUID, list[str]]:
    """The reasons why some changes differ from the majority, by request. Without a majority there is no rule."""
    usual_risk = _majority_of(members, lambda member: member.risk)
    usual_protection = _majority_of(members, lambda member: member.protected)
    usual_action = _majority_of(members, lambda member: member.change.operation)
    usual_kind = _majority_of(members, lambda member: member.change.kind)
    usual_reason = _majority_of(members, lambda member: member.reason)
    usual_schedule = _majority_of(members, lambda member: member.schedule)
    by_name = {
        member.id: {each.attribute.lower(): assigned_words(each, member.change.named) for each in member.change.changes}
        for member in members
    }
    labels = {each.attribute.lower(): label_of(each.attribute) for member in members for each in member.change.changes}
    most = len(members) / 2
    usual_values: dict[str, str | None] = {}
    for name in labels:
        having = [of_one[name] for of_one in by_name.values() if name in of_one]
        if len(having) > most:
            usual_values[name] = _majority_value(having, more_than=most)

    usual_current = {
        name: _majority_value([each.current[name] for each in members if name in each.current], more_than=most)
        for name in labels
        if name not in _NAME_ATTRIBUTES
    }

    def reasons(member: _Member) -> Iterable[str]:
        risks = risk_words(member.risk), None if usual_risk is None else risk_words(usual_risk)
        for this, usual in (risks, (member.schedule, usual_schedule)):
            if usual is not None and this != usual:
                yield _("{this} instead of {usual}").format(this=this, usual=usual)
        if member.protected and usual_protection is False:
            yield _("a protected object")
        if usual_action is not None and member.change.operation != usual_action:
            this, usual = (noun_label(name.rpartition(".")[2]) for name in (member.change.operation, usual_action))
            yield _("{this} instead of {usual}").format(this=this, usual=usual)
        elif usual_kind is not None and member.change.kind != usual_kind:
            this, usual = kind_words(member.change.kind), kind_words(usual_kind)
            yield _("a {this} instead of a {usual}").format(this=this, usual=usual)
        if usual_reason is not None and member.reason != usual_reason:
            yield _("another reason")

    def reasons_in_values(member: _Member) -> Iterable[str]:
        mine = by_name[member.id]
        for name, label in labels.items():
            if name in _NAME_ATTRIBUTES:
                continue
            if name not in usual_values:
                if name in mine and usual_action is not None:
                    yield _("also changes {attribute}").format(attribute=label)
            elif name not in mine:
                yield _("does not change {attribute}").format(attribute=label)
            elif (usual_value := usual_values[name]) is not None and mine[name] != usual_value:
                text = _("{attribute}: {this} instead of {usual}")
                yield text.format(attribute=label, this=mine[name], usual=usual_value)
            if (usual_now := usual_current[name]) is not None and member.current.get(name, usual_now) != usual_now:
                text = _("{attribute} so far: {this} instead of {usual}")
                yield text.format(attribute=label, this=member.current[name], usual=usual_now)

    found = {member.id: [*reasons(member), *reasons_in_values(member)] for member in members}
    return {id: why for id, why in found.items() if why}


def _majority_of(members: Sequence[_Member], key: Callable[[_Member], _Key]) -> _Key | None:
    return _majority_value([key(member) for member in members], more_than=len(members) / 2)


def _majority_value(values: Sequence[_Key], *, more_than: float) -> _Key | None:
    """The value that occurs more often than `more_than`, if there is one."""
    if not values:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if count > more_than else None


class OneDecision(Body):
    """A request with the `digest` that was shown with it."""

    id: Guid
    digest: Annotated[str, Field(max_length=128)]


class DecideTogether(ConfirmedBody):
    """One decision about several change requests."""

    model_config = example(
        decision="approve",
        changeRequests=[{"id": "0192f1c8-5b1e-7c44-9d0e-0f5f2f6a7b11", "digest": "9f2c…"}],
        comment="Agreed with HR.",
    )

    decision: Literal["approve", "reject"]
    change_requests: Annotated[list[OneDecision], Field(min_length=1, max_length=MAX_REQUESTS)]
    comment: Comment | None = Field(None, description="For all of them. A rejection needs one.")

    @model_validator(mode="after")
    def _require_reason(self) -> Self:
        if self.decision == "reject" and not (self.comment or "").strip():
            raise ValueError(message("a rejection needs a comment"))
        return self

    def purpose(self, id: UUID | None) -> str:
        return decision_purpose(self.decision, [(item.id, item.digest) for item in self.change_requests])


class DecidedJson(TypedDict):
    """What became of one decision: the request's state, or why it was refused."""

    id: Id
    status: Annotated[str, documented_as(Status)] | None
    problem: Annotated[dict[str, Any], KEPT_PROBLEM] | None


class DecidedTogetherJson(TypedDict):
    """What became of each decision, in their order."""

    total: int
    succeeded: int
    failed: int
    results: list[DecidedJson]


@rest_operation(
    "change-requests.decide",
    "POST change-requests/decide",
    "Decide several change requests",
    permission=DECIDE,
    effect=Effect.UNDERTAKE,
)
def decide_together(call: Call, *, body: DecideTogether) -> DecidedTogetherJson:
    """Approve or reject several change requests with one comment; each is decided and recorded by itself.

    Every rule of a single decision holds for each of them: its digest, who may decide it, a second approval. A refused
    one does not affect the others. A code of the second factor or a passkey is asked for once.
    """
    if body.decision == "approve" or body.passkey is not None:
        call = confirm(call, body)
    comment = (body.comment or "").strip() or None
    each_once = {item.id: item for item in body.change_requests}.values()
    conflicts = ConflictChecker()
    results = [_decide(call, body.decision, item, comment, conflicts) for item in each_once]
    failed = sum(item["problem"] is not None for item in results)
    return {"total": len(results), "succeeded": len(results) - failed, "failed": failed, "results": results}


def _decide(
    call: Call,
    decision: Literal["approve", "reject"],
    item: OneDecision,
    comment: str | None,
    conflicts: ConflictChecker,
) -> DecidedJson:
    """Make one decision in a transaction of its own, with the record of the operation for a single decision."""
    name, table = f"change-requests.{decision}", find_audited_model("change-requests")
    try:
        find_visible(call, item.id)
        require_decidable(call, item.id)
        with recorded(call, operation=name) as administration:
            administration.watch(table, item.id)
            if decision == "approve":
                decided = decisions.approve(call, item.id, digest=item.digest, comment=comment, conflicts=conflicts)
            else:
                decided = decisions.reject(
                    call, item.id, comment=comment or "", digest=item.digest, conflicts=conflicts
                )
    except GatewayError as refusal:
        target = log.TargetRef(id=item.id, kind=table.resource, distinguished_name="")
        log.record_refusal(call, operation=name, code=refusal.code, target=target)
        return {"id": str(item.id), "status": None, "problem": refusal.as_problem()}
    return {"id": str(item.id), "status": decided.status, "problem": None}

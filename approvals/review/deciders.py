"""Who may decide a change request besides holding the permission, and who may see it.

Otherwise one person could approve their own change through a second identity. So people are barred for
`Approvals:IssuerBarDays` if they issued, rotated, re-owned or widened the key that requests the change, or if the
requester made or changed their account. This is read from the operations log, which nobody can change: each of these
changes is recorded in the same transaction. So are passwords and other credentials that the gateway sets in the
directory: who knows that of a person's account can sign in as them.

Confined people see requests whose target lies inside their scopes. They decide only those that hide nothing from them:
an approver of a new member, manager or parent answers for that object too.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from active_directory import LdapError
from approvals.models import ChangeRequest
from audit.identifiers import identifier_bounds
from audit.log_queries import only_changes
from audit.model_changes.descriptions import find_audited_model
from audit.models import OperationRecord, Outcome
from core.call import Call, CredentialKind, CredentialRef, Surface
from core.errors import GatewayError
from core.shapes import parse_guid
from core.text.messages import message
from directory.lookup.access import client_of, inside_scopes_condition, is_within_any, scope_bases
from directory.lookup.visibility import Visibility, visibility_of
from keys.models import ApiKey, Person
from keys.permissions.effective import call_for_person
from keys.permissions.scopes import is_confined

_TAKEOVER_ATTRIBUTES = frozenset({"password", "secondFactor", "owner", "value"})
"""Whoever sets one of these takes over an account or a key, although it may do no more than before."""
_CREATING_OPERATIONS = frozenset({"api-keys.create", "people.create"})
_ACCOUNT_ATTRIBUTES = _TAKEOVER_ATTRIBUTES | {"permissions", "groups", "active", "superuser", "staff"}
_OWN_TABLES = frozenset({"api-keys", "agents", "roles", "people", "permission-groups", "directories"})
_CREDENTIALS = frozenset({"unicodepwd", "msds-keycredentiallink", "altsecurityidentities"})
"""Attributes of an account in the directory: whoever sets one of these can sign in with it."""

_Event = tuple[int, datetime]
"""Who changed something, and when."""


def conflict_reason(person_id: int | None, request: ChangeRequest) -> str | None:
    """A sentence that says why a person may not decide somebody else's request; None if they may."""
    return ConflictChecker().reason_against(person_id, request)


class ConflictChecker:
    """Checks many requests for many people, reading the log once for each key and each person.

    Use it for one answer or one sweep only, since the log grows. Check older requests first: what was read for an
    earlier start of the period serves a later one, but not the other way round.
    """

    def __init__(self) -> None:
        self._histories: dict[object, tuple[datetime, list[_Event]]] = {}

    def reason_against(self, person_id: int | None, request: ChangeRequest) -> str | None:
        """A sentence that says why the person may not decide somebody else's request; None if they may."""
        days = settings.CONFIGURATION.Approvals.IssuerBarDays
        if not days or person_id is None:
            return None
        since = request.created_at - timedelta(days=days)
        key = (request.key_id, request.requester_id)
        if person_id in self._people_since(since, key, lambda: _people_behind_key(request, since)):
            return message(
                "You issued, rotated or widened the key that asks, or the rights it acts with, within {days} days "
                "before.",
                days=days,
            )
        if request.requester_id in self._account_ancestors(person_id, since):
            return message("Your account was made or changed by whoever asks, within {days} days before.", days=days)
        return None

    def _account_ancestors(self, person_id: int, since: datetime) -> set[int]:
        """Who made or changed a person's account, who made or changed the accounts of those people, and so on."""
        ancestors, new = {person_id}, {person_id}
        while new:
            new = {maker for person in new for maker in self._makers_of(person, since)} - ancestors
            ancestors |= new
        return ancestors - {person_id}

    def _makers_of(self, person_id: int, since: datetime) -> set[int]:
        return self._people_since(
            since,
            person_id,
            lambda: _people_who_changed(_log_targets_of(person_id), since, by=_ACCOUNT_ATTRIBUTES),
        )

    def _people_since(self, since: datetime, key: object, read: Callable[[], list[_Event]]) -> set[int]:
        """The people of a history since a moment; `read` reads what is not known yet."""
        if key not in self._histories or self._histories[key][0] > since:
            self._histories[key] = since, read()
        return {person for person, at in self._histories[key][1] if at >= since}


def find_deciders(request: ChangeRequest, *, among: str | None = None) -> list[str]:
    """The user names of active people who may decide a request, sorted; only the first 50 people are considered.

    `among` considers just the person with that user name.
    """
    others = active_deciders().exclude(pk=request.requester_id)
    if among is not None:
        others = others.filter(username=among)
    conflicts = ConflictChecker()
    return [
        person.username
        for person in others[:50]
        if conflicts.reason_against(person.pk, request) is None and find_visible_to(person, [request])
    ]


def find_other_deciders(*, excluding: int) -> list[str]:
    """The user names of up to five active people, other than `excluding`, who may decide changes at all."""
    return [person.username for person in active_deciders().exclude(pk=excluding)[:5]]


def find_deciders_for(owner: int, *, excluding: int) -> list[str]:
    """Who could decide the requests of a key of this owner if the person `excluding` issued it now."""
    asked = ChangeRequest(requester_id=owner, created_at=timezone.now(), key_id="")
    others = active_deciders().exclude(pk__in=(owner, excluding))
    conflicts = ConflictChecker()
    return [person.username for person in others[:50] if conflicts.reason_against(person.pk, asked) is None]


def find_barred_keys(person: Person, keys: Iterable[ApiKey], conflicts: ConflictChecker) -> list[ApiKey]:
    """The keys whose requests a person could not decide if they were made now: their own, and as `conflicts` says."""
    now = timezone.now()
    asked = ((key, ChangeRequest(requester_id=key.owner_id, created_at=now, key_id=str(key.pk))) for key in keys)
    return [
        key
        for key, request in asked
        if key.owner_id == person.pk or conflicts.reason_against(person.pk, request) is not None
    ]


def active_deciders() -> QuerySet[Person]:
    """The active people who hold the permission to decide change requests, by name."""
    may_decide = Person.objects.with_perm(
        "approvals.decide_change", backend="django.contrib.auth.backends.ModelBackend"
    )
    return may_decide.order_by("username")


def _people_behind_key(request: ChangeRequest, since: datetime) -> list[_Event]:
    """Who made or changed the key, its role, its owner or the owner's groups, and when."""
    people = []
    targets: list[UUID] = []
    key_id = parse_guid(request.key_id)
    key = ApiKey.objects.filter(pk=key_id).first() if key_id else None
    if key is not None:
        targets += [key.pk, key.role_id]
        if key.created_by_id is not None and key.created_at >= since:  # an early release issued it without a record
            people.append((key.created_by_id, key.created_at))
    if request.agent and key_id is not None:  # then `key_id` is the agent's grant
        targets.append(key_id)
    targets += _log_targets_of(request.requester_id)
    return people + _people_who_changed(targets, since, by=_TAKEOVER_ATTRIBUTES)


def _log_targets_of(person_id: int) -> list[UUID]:
    """The log's ids of a person, of the groups that give them permissions, of their account in a directory, and of that
    directory."""
    person = Person.objects.filter(pk=person_id).first()
    if person is None:
        return []
    of_groups = find_audited_model("permission-groups").id_of
    account = [each for each in (person.connection_id, person.object_guid) if each is not None]
    return [person.public_id, *account, *(of_groups(group) for group in person.groups.all())]


def _people_who_changed(targets: Iterable[UUID], since: datetime, *, by: frozenset[str]) -> list[_Event]:
    """Who created one of the targets, widened its access, or changed an attribute in `by`, and when.

    Of an account in a directory, who set a credential, or approved that and got the password. Whoever changes a
    password has to know the current one.
    """
    records = only_changes(
        OperationRecord.objects.filter(
            target_id__in=list(targets), id__gte=identifier_bounds(since)[0], outcome=Outcome.SUCCEEDED
        )
    ).exclude(operation__endswith=".change-password")
    found: list[_Event] = []
    approved: list[tuple[str, datetime]] = []
    for record in records.only("owner_id", "at", "operation", "target_kind", "changes", "raised_access", "approved_by"):
        changed = {change["attribute"] for change in record.changes}
        if record.target_kind in _OWN_TABLES:
            # One without values was recorded before these were: it may have been any change.
            counts = record.operation in _CREATING_OPERATIONS or record.raised_access or not changed or changed & by
        elif counts := not _credentials().isdisjoint(map(str.lower, changed)):
            approved += ((name, record.at) for name in (record.approved_by or "").split(", ") if name)
        if counts:
            found.append((record.owner_id, record.at))
    if approved:
        ids = dict(Person.objects.filter(username__in={name for name, _ in approved}).values_list("username", "pk"))
        found += ((ids[name], at) for name, at in approved if name in ids)
    return found


def _credentials() -> frozenset[str]:
    """The attributes of an account by which people sign in here, in lower case."""
    named = (provider.ClaimNames for provider in settings.CONFIGURATION.SignIn.Oidc)
    return _CREDENTIALS | {"userprincipalname"} if "userPrincipalName" in named else _CREDENTIALS


def requests_in_scopes(call: Call) -> Q:
    """The condition that selects the requests inside the caller's scopes; all of them for callers without scopes."""
    if not call.scopes:
        return ~Q(pk__in=())  # always true
    if call.directory is None:
        return Q(pk__in=())
    return inside_scopes_condition(call, "target_dn") & Q(directory_id=call.directory.id)


def is_inside_scopes(call: Call, request: ChangeRequest) -> bool:
    """Whether the target of a request is inside a confined caller's scopes, wherever it is by now."""
    if call.directory is None or request.directory_id != call.directory.id:
        return False
    target = None if request.target_id is None else client_of(call).find(request.target_id, ("objectGUID",))
    return is_within_any(request.target_dn if target is None else target.dn, scope_bases(call) or ())


def hidden_reason(call: Call, request: ChangeRequest) -> str | None:
    """A sentence that says why a confined caller may not decide a request that they see; None if they may."""
    if call.scopes and _has_hidden_values(request, visibility_of(call)):
        return message("It concerns objects outside of what you are confined to.")
    return None


def _has_hidden_values(request: ChangeRequest, visibility: Visibility) -> bool:
    return any(
        visibility.hides(change["attribute"], values)
        for change in request.changes
        for values in (change["before"], change["after"])
    )


def find_visible_to(person: Person, requests: Sequence[ChangeRequest]) -> list[ChangeRequest]:
    """Those of some requests that a person may be notified of, or asked to decide.

    None of a directory that does not answer, since nobody then knows what their scopes contain.
    """
    if not is_confined(person):
        return list(requests)
    visible: set[UUID] = set()
    for directory in {request.directory_id for request in requests}:
        some = [request for request in requests if request.directory_id == directory]
        with suppress(GatewayError, LdapError):
            call = call_for_person(
                person.pk,
                credential=CredentialRef(kind=CredentialKind.GATEWAY, id="gateway"),
                connection_id=directory,
                surface=Surface.REST,
                request_id=some[0].request_id,
            )
            visible |= _find_visible(call, some)
    return [request for request in requests if request.id in visible]


def _find_visible(call: Call, requests: Iterable[ChangeRequest]) -> set[UUID]:
    """Those of some requests of the call's directory that a confined caller sees, and that hide nothing from them."""
    inside = {request.id: request for request in requests}
    ids = ChangeRequest.objects.filter(requests_in_scopes(call), pk__in=inside).values_list("pk", flat=True)
    visibility, visible = visibility_of(call), set()
    for each in ids:
        with suppress(GatewayError, LdapError):
            if not _has_hidden_values(inside[each], visibility):
                visible.add(each)
    return visible

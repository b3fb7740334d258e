"""Secret addresses of calendars: making and ending one's own, and from its secret to the calls that it may make."""

from typing import Any

from audit import security
from audit.model_changes.recording import recorded
from core.call import Call, CredentialKind, CredentialRef, Surface
from core.configuration_sections import RateLimit
from core.errors import Forbidden, NotFound
from core.rate_limits import require_below_limit
from keys import credential_values
from keys.models import CalendarAddress, Person, stamp_of
from keys.permissions.effective import call_for_person, find_directories
from keys.sign_in import second_factor

_FETCHES = RateLimit(Requests=60, WindowSeconds=3600)
"""How often one address may be read: calendar programs do so every quarter of an hour at most."""


def make(call: Call, person: Person, *, language: str) -> str:
    """Make the person's address, in place of an earlier one; return its secret, of which only the digest is stored."""
    value, secret = credential_values.make(credential_values.Prefix.CALENDAR)
    stamp = stamp_of(person.password, person.session_epoch)
    with recorded(call, person, operation="people.update"):
        CalendarAddress.objects.update_or_create(
            person=person, defaults={"digest": secret.digest, "person_stamp": stamp, "language": language}
        )
    return value


def end(call: Call, person: Person) -> None:
    with recorded(call, person, operation="people.update"):
        CalendarAddress.objects.filter(person=person).delete()


def is_made(person: Person) -> bool:
    """Whether the person has an address that holds."""
    return any(map(_holds, CalendarAddress.objects.select_related("person").filter(person=person)))


def _holds(address: CalendarAddress) -> bool:
    person = address.person
    return address.person_stamp == stamp_of(person.password, person.session_epoch)


def identify(value: str, **origin: Any) -> tuple[str, list[Call]]:
    """The language of a calendar, and its person's calls: one for each directory if they are confined, else one.

    The index is asked for the digest, so how long it takes says nothing about the secret. Raises NotFound for all that
    gives no access, RateLimited, and NotChecked while the person's directory does not answer.
    """
    secret = credential_values.parse(value, credential_values.Prefix.CALENDAR)
    known = CalendarAddress.objects.select_related("person__connection")
    address = known.filter(digest=secret.digest if secret else "").first()
    try:
        if address is None or not _holds(address) or second_factor.is_missing(address.person):
            raise Forbidden
        person = address.person
        require_below_limit("Calendar", str(person.public_id), _FETCHES)
        credential = CredentialRef(CredentialKind.CALENDAR, str(person.public_id), "calendar")
        request = {"surface": Surface.REST, "credential": credential, **origin}
        first, *others = [each.id for each in find_directories(person.connection)] or (None,)
        call = call_for_person(person.pk, connection_id=first, **request)
        return address.language, [
            call,
            *(call_for_person(person.pk, connection_id=each, **request) for each in others if call.scopes),
        ]
    except Forbidden:
        security.log_refusal("calendar address unknown or ended", **origin)
        raise NotFound from None

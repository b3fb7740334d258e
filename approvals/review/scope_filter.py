"""Which change requests concern only what somebody is confined to, by their role or in person.

They see requests whose target lies inside. They decide only those of which nothing is hidden from them: who approves a
member, a manager or a place answers for it, too.
"""

from django.db.models import Q

from active_directory import LdapError
from approvals.models import ChangeRequest
from core.call import Call, CredentialKind, CredentialRef, Surface
from core.errors import Forbidden, GatewayError
from core.text.messages import message
from directory.lookup.access import named_inside_scopes
from directory.lookup.visibility import visibility_of
from keys.models import Person
from keys.permissions.effective import call_for_person
from keys.permissions.scoping import is_confined

HIDDEN = message("It concerns objects outside of what you are confined to.")
"""Why somebody may not decide a request that they see."""


def within_reach(call: Call) -> Q:
    """The requests that the caller may know of, as far as places go: everybody who is not confined, of all."""
    if not call.scopes:
        return ~Q(pk__in=())
    if call.directory is None:
        return Q(pk__in=())
    return named_inside_scopes(call, "target_dn") & Q(directory_id=call.directory.id)


def hides_something(call: Call, request: ChangeRequest) -> bool:
    """Whether a request within reach would change or name something that is hidden from a confined caller."""
    if not call.scopes:
        return False
    visibility = visibility_of(call)
    return any(
        visibility.hides(change["attribute"], values)
        for change in request.changes
        for values in (change["before"], change["after"])
    )


def require_fully_visible(call: Call, request: ChangeRequest) -> None:
    """Raise Forbidden where something of a request within reach is hidden from the caller."""
    if hides_something(call, request):
        raise Forbidden


def reaches(person: Person, request: ChangeRequest) -> bool:
    """Whether somebody may be told of a request, or asked to decide it, wherever they sign in.

    A directory that does not answer leaves it open: then they are not.
    """
    if not is_confined(person):
        return True
    credential = CredentialRef(kind=CredentialKind.GATEWAY, id="gateway")
    try:
        call = call_for_person(
            person.pk,
            credential=credential,
            connection_id=request.directory_id,
            surface=Surface.REST,
            request_id=request.request_id,
        )
        is_seen = ChangeRequest.objects.filter(within_reach(call), pk=request.pk).exists()
        return is_seen and not hides_something(call, request)
    except (GatewayError, LdapError):
        return False

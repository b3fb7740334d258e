"""A person's own password: changed with the present one, for local accounts only."""

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from audit import security
from audit.model_changes.recording import recorded
from core.call import Call
from core.errors import Conflict, InvalidRequest
from core.text.messages import message
from keys.models import Person, PersonSession
from keys.permissions.effective import reference_to
from keys.sign_in import sessions
from keys.sign_in.credentials import origin_of, verify
from keys.sign_in.session_store import stored_key_of


def change_own_password(request: HttpRequest, call: Call, person: Person, *, current: str, new: str) -> None:
    """Change the password of the signed-in person. Their other sessions end, and all their access tokens.

    Raises SignInRefused for a wrong present password, which counts like one at sign-in; InvalidRequest at `newPassword`
    for one that the rules for local accounts refuse; Conflict for a person of a directory.
    """
    if not person.is_local:
        raise Conflict(message("The password of a person of a directory is the directory's to change."))
    verify(request, username=person.username, password=current)
    try:
        validate_password(new, person)
    except ValidationError as refusal:
        detail = " ".join(refusal.messages)
        raise InvalidRequest.naming(detail, pointer="#/newPassword") from None
    with recorded(call, operation="people.update") as administration:
        administration.watch_row(person)
        person.set_password(new)
        person.save(update_fields=["password"])
    sessions.end_others(request, reference_to(person))
    sessions.revoke_tokens(person)
    # This session goes on, but Django gives it another key.
    before = stored_key_of(request)
    update_session_auth_hash(request, person)
    PersonSession.objects.filter(session_key=before).update(session_key=stored_key_of(request))
    security.noted("password changed", person=person.username, **origin_of(request))

"""Who changes the gateway's own tables when nobody who signed in does: a command, or the gateway by itself."""

from dataclasses import replace

from core.call import Call, CredentialKind, CredentialRef, PersonRef, Surface

_COMMAND_LINE = "(command line)"


def call_of_command(name: str) -> Call:
    """The call of a management command. More access waits for nobody there: whoever runs one holds the database."""
    return _call(_COMMAND_LINE, f"manage.py {name}")


def is_command(call: Call) -> bool:
    """Whether a management command calls, which may do what superusers may."""
    return call.surface is Surface.WORKER and call.person.id == 0 and call.person.username == _COMMAND_LINE


def call_of_gateway(reason: str) -> Call:
    """The call of what the gateway does by itself, and why."""
    return _call("(gateway)", "gateway", reason)


def call_of_set_up(*, client_address: str, request_id: str) -> Call:
    """The call of whoever makes the first administrator on the set-up page, with the code from the server's log."""
    return replace(_call("(set-up)", "set-up"), client_address=client_address or None, request_id=request_id)


def _call(owner: str, credential: str, reason: str | None = None) -> Call:
    """No person can be called like these owners: neither name is one of a local account or of a directory."""
    return Call(
        surface=Surface.WORKER,
        person=PersonRef(id=0, username=owner, display_name=owner.strip("()").capitalize()),
        credential=CredentialRef(kind=CredentialKind.SESSION, id=credential),
        permissions=frozenset(),
        reason=reason,
    )

"""Who changes the gateway's own tables at the machine itself: nobody that the gateway knows."""

from gateway.core.call import Call, CredentialKind, CredentialRef, PersonRef, Surface

OWNER = "(command line)"
"""What the log says of who ran a command. No person can be called so."""


def call_of_command(name: str) -> Call:
    """The call of a management command. More access waits for nobody there: whoever runs one holds the database."""
    return Call(
        surface=Surface.WORKER,
        person=PersonRef(id=0, username=OWNER, display_name="Command line"),
        credential=CredentialRef(kind=CredentialKind.SESSION, id=f"manage.py {name}"),
        permissions=frozenset(),
    )

"""Calls as a surface would make them, for what is tested below the surfaces."""

from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from core.call import Call, CredentialKind, CredentialRef, DirectoryRef, PersonRef, Surface

DIRECTORY = DirectoryRef(id=UUID("d1d1d1d1-0000-4000-8000-000000000001"), name="corp", client_id="c1")

CALL = Call(
    surface=Surface.API,
    person=PersonRef(id=7_000_007, username="ada", display_name="Ada Lovelace"),
    credential=CredentialRef(kind=CredentialKind.API_KEY, id="a1a1a1a1-0000-4000-8000-000000000001", name="crm"),
    permissions=frozenset({"audit.read_log", "directory.read_object", "directory.update_user"}),
    directory=DIRECTORY,
    client_address="192.0.2.7",
    request_id="request-1",
    reason="Ticket 4711",
)


def call_named(name: str) -> dict[str, Any]:
    """The facts of one call of several changes. Its request id is that of other calls, too: it decides nothing."""
    return {"call_id": uuid5(NAMESPACE_OID, name), "request_id": "the-whole-job"}


def make_call(**changes: Any) -> Call:
    """A call of Ada's by her key, or another that differs in what is given."""
    return replace(CALL, **{"call_id": uuid4(), **changes})

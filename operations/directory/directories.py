"""Administration of directory connections, on `/rest` only."""

from typing import Annotated, Any
from uuid import UUID

from django.core.exceptions import ValidationError
from pydantic import Field
from typing_extensions import TypedDict

from core.call import Call
from core.database import own_rows
from core.errors import Conflict, FieldError, InvalidRequest
from core.operation import Effect, RateCategory, administration, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Id, Moment, PartialUpdate, as_record, example, render_timestamp
from core.text.messages import message
from directory.changes import bind_password_rotation
from directory.models import DirectoryConnection
from directory.queries.connection_test import ConnectionReport, try_connection_and_record
from directory.shapes.inputs import pointer
from operations.directory.rights.account_rights import RightsComparison, RightsQuery, compare_account_rights

Text = Annotated[str, Field(min_length=1, max_length=1000)]


class CreateDirectory(Body):
    model_config = example(
        name="Corp",
        urls=["ldaps://dc1.corp.example.com", "ldaps://dc2.corp.example.com"],
        baseDn="DC=corp,DC=example,DC=com",
        bindDn="CN=svc-gateway,OU=Service Accounts,DC=corp,DC=example,DC=com",
        bindPassword="…",
        caCertificate="-----BEGIN CERTIFICATE-----\n…",
        enabled=True,
    )

    name: Annotated[str, Field(min_length=1, max_length=100)]
    urls: Annotated[list[str], Field(min_length=1, description="ldaps:// URLs in order of preference.")]
    base_dn: Text
    bind_dn: Text
    bind_password: Annotated[str, Field(min_length=1, description="Write-only; encrypted at rest.")]
    ca_certificate: str | None = Field(None, description="PEM text; null for the operating system's.")
    start_tls: bool = Field(False, description="Begin on ldap:// and encrypt before anything is said.")
    enabled: bool = True
    identity_questions: str = Field(
        "",
        max_length=2000,
        description="What the help desk asks callers to find out who they are, one question a line; an attribute in "
        "braces, such as `{employeeNumber}`, shows its value.",
    )


class UpdateDirectory(CreateDirectory, PartialUpdate):
    """Omitted members stay as they are. Members that decide where the password is sent need it in the same request."""

    model_config = example(enabled=False)


class DirectoryRecord(TypedDict):
    """A directory connection without its password."""

    id: Id
    version: str
    name: str
    urls: list[str]
    baseDn: str
    bindDn: str
    caCertificate: str | None
    startTls: bool
    enabled: bool
    identityQuestions: str
    clientId: Id
    passwordRotatedAt: Moment | None
    createdAt: Moment | None
    changedAt: Moment | None


@rest_operation(
    "directories.list", "GET directories", "List directory connections", permission="directory.view_directoryconnection"
)
def list_directories(call: Call, *, query: PageQuery) -> Page[DirectoryRecord]:
    """List the directory connections."""
    return page_of(call, DirectoryConnection.objects.all(), query=query, order=("name",), render=_record)


@rest_operation(
    "directories.read",
    "GET directories/{id}",
    "Read {a directory connection}",
    permission="directory.view_directoryconnection",
)
def read_directory(_: Call, *, id: UUID) -> DirectoryRecord:
    """Read one directory connection."""
    return _record(_find(id))


@administration(
    "directories.create",
    "POST directories",
    "Create {a directory connection}",
    permission="directory.add_directoryconnection",
    creates=True,
)
def create_directory(_: Call, *, body: CreateDirectory) -> DirectoryRecord:
    """Connect a directory. Test it before giving keys a link to it."""
    return _save(DirectoryConnection(), dict(body))


@administration(
    "directories.update",
    "PATCH directories/{id}",
    "Update {a directory connection}",
    permission="directory.change_directoryconnection",
)
def update_directory(_: Call, *, id: UUID, body: UpdateDirectory) -> DirectoryRecord:
    """Change a directory connection. Every process uses the new settings from the next request on.

    A change of `urls`, `startTls`, `caCertificate` or `bindDn` needs `bindPassword` in the same request: only those
    who know the password may decide where it is sent.
    """
    return _save(_find(id), body.sent_values())


@administration(
    "directories.delete",
    "DELETE directories/{id}",
    "Delete {a directory connection}",
    permission="directory.delete_directoryconnection",
)
def delete_directory(_: Call, *, id: UUID) -> None:
    """Delete a directory connection that nothing uses."""
    used = message("The directory connection is in use: API keys, roles, people or groups belong to it.")
    own_rows.delete(_find(id), used=used)


@rest_operation(
    "directories.test",
    "POST directories/{id}/test",
    "Test {a directory connection}",
    permission="directory.change_directoryconnection",
)
def try_directory(call: Call, *, id: UUID) -> ConnectionReport:
    """Try a directory connection: servers, TLS, sign-in, schema and rights."""
    return try_connection_and_record(call, _find(id))


@rest_operation(
    "directories.test-new",
    "POST directories/test",
    "Test {a directory connection} before it is added",
    permission="directory.add_directoryconnection",
)
def try_new_directory(call: Call, *, body: CreateDirectory) -> ConnectionReport:
    """Try a directory connection before it is made. Nothing is saved."""
    return try_connection_and_record(call, new_connection(body))


@rest_operation(
    "directories.rotate-password",
    "POST directories/{id}/rotate-password",
    "Rotate the bind password of {a directory connection}",
    permission="directory.rotate_bind_password",
    effect=Effect.UNDERTAKE,
)
def rotate_password(call: Call, *, id: UUID) -> DirectoryRecord:
    """Give the gateway's account in a directory a new password, which nobody is told.

    The directory's minimum password age holds. Other systems that sign in with the account stop working.
    """
    bind_password_rotation.rotate(call, _find(id))
    return _record(_find(id))


@rest_operation(
    "directories.rights",
    "GET directories/{id}/rights",
    "Read the rights of the gateway in {a directory}",
    permission="directory.change_directoryconnection",
    rate=RateCategory.DIRECTORY_SEARCH,
)
def compare_rights(_: Call, *, id: UUID, query: RightsQuery) -> RightsComparison:
    """Compare what the gateway's account may do at a base, or wherever it is used, with what it needs there.

    It needs the rights behind the permissions of keys linked to the directory and of people, superusers excepted, for
    attributes in the console's forms and those written in the last 90 days. The lines that grant missing rights are for
    PowerShell, `dsacls` and `samba-tool`.
    """
    return compare_account_rights(id, query)


def new_connection(body: CreateDirectory) -> DirectoryConnection:
    """A connection that is not saved, to be tried or saved; raises Conflict or InvalidRequest naming the members."""
    row = DirectoryConnection()
    _set(row, dict(body))
    row.seal_bind_password()
    return row


def _save(row: DirectoryConnection, given: dict[str, Any]) -> DirectoryRecord:
    _set(row, given)
    row.save()
    return _record(row)


def _set(row: DirectoryConnection, given: dict[str, Any]) -> None:
    """Set the given members and check the whole; raises Conflict or InvalidRequest naming the members."""
    for name, value in given.items():
        setattr(row, name, "" if value is None else value)
    row.bind_password_given = "bind_password" in given
    try:
        row.full_clean()
    except ValidationError as refusal:
        if any(error.code == "unique" for error in refusal.error_dict.get("name", ())):
            raise Conflict(message("A directory connection with this name exists already.")) from None
        shape = CreateDirectory.model_fields
        errors = [
            FieldError(
                InvalidRequest.code, message, pointer=pointer(shape[field].alias or field) if field in shape else "#"
            )
            for field, messages in refusal.message_dict.items()
            for message in messages
        ]
        raise InvalidRequest("; ".join(error.detail for error in errors), errors=errors) from None


def _find(id: UUID) -> DirectoryConnection:
    return own_rows.find(DirectoryConnection.objects.all(), pk=id)


def _record(row: DirectoryConnection) -> DirectoryRecord:
    shown = {"version": str(row.revision), "caCertificate": row.ca_certificate or None}
    return as_record(DirectoryRecord, row, **shown, passwordRotatedAt=render_timestamp(row.rotated_at))

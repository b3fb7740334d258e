"""Administration of directory connections, for the console's surface only."""

from typing import Annotated, Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import ProtectedError, RestrictedError
from pydantic import Field
from typing_extensions import TypedDict

from core.call import Call, Surface
from core.errors import Conflict, FieldError, InvalidRequest, NotFound
from core.operation import Effect, RateCategory, operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Id, Moment, Part, render_timestamp
from core.text.messages import message
from directory.changes import bind_password_rotation
from directory.models import DirectoryConnection
from directory.queries.connection_test import ConnectionReport, try_and_record
from directory.shapes.attribute_updates import pointer
from directory.shapes.inputs import example
from operations.directory.rights.account_rights import RightsComparison, RightsQuery, compare_account_rights

REST_ONLY = frozenset({Surface.REST})
_EXAMPLE = {
    "name": "Corp",
    "urls": ["ldaps://dc1.corp.example.com", "ldaps://dc2.corp.example.com"],
    "baseDn": "DC=corp,DC=example,DC=com",
    "bindDn": "CN=svc-gateway,OU=Service Accounts,DC=corp,DC=example,DC=com",
    "bindPassword": "…",
    "caCertificate": "-----BEGIN CERTIFICATE-----\n…",
    "enabled": True,
}

Servers = Annotated[list[str], Field(min_length=1, description="ldaps:// URLs in order of preference.")]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


class CreateDirectory(Body):
    model_config = example(**_EXAMPLE)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    urls: Servers
    base_dn: Text
    bind_dn: Text
    bind_password: Annotated[str, Field(min_length=1, description="Write-only; encrypted at rest.")]
    ca_certificate: Annotated[str | None, Field(description="PEM text; null for the operating system's.")] = None
    start_tls: Annotated[bool, Field(description="Begin on ldap:// and encrypt before anything is said.")] = False
    enabled: bool = True


class UpdateDirectory(Part):
    """A member that is left out stays as it is; what decides where the password is sent needs the password anew."""

    model_config = example(enabled=False)

    name: Annotated[str, Field(min_length=1, max_length=100)] = ""
    urls: Servers = []
    base_dn: Text = ""
    bind_dn: Text = ""
    bind_password: Annotated[str, Field(min_length=1, description="Write-only; encrypted at rest.")] = ""
    ca_certificate: str | None = None
    start_tls: bool = False
    enabled: bool = True


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
    clientId: Id
    passwordRotatedAt: Moment | None
    createdAt: Moment | None
    changedAt: Moment | None


def render(row: DirectoryConnection) -> DirectoryRecord:
    return {
        "id": str(row.id),
        "version": str(row.revision),
        "name": row.name,
        "urls": list(row.urls),
        "baseDn": row.base_dn,
        "bindDn": row.bind_dn,
        "caCertificate": row.ca_certificate or None,
        "startTls": row.start_tls,
        "enabled": row.enabled,
        "clientId": row.client_id,
        "passwordRotatedAt": render_timestamp(row.rotated_at),
        "createdAt": render_timestamp(row.created_at),
        "changedAt": render_timestamp(row.changed_at),
    }


def _find(id: UUID) -> DirectoryConnection:
    try:
        return DirectoryConnection.objects.get(pk=id)
    except DirectoryConnection.DoesNotExist:
        raise NotFound from None


def new_connection(body: CreateDirectory) -> DirectoryConnection:
    """A connection that is not saved, to be tried or saved; raises Conflict or InvalidRequest naming the members."""
    row = DirectoryConnection()
    _set(row, body.model_dump())
    row.seal_bind_password()
    return row


def _save(row: DirectoryConnection, given: dict[str, Any]) -> DirectoryRecord:
    _set(row, given)
    row.save()
    return render(row)


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


@operation(
    "directories.list",
    "GET directories",
    "List directory connections",
    permission="directory.view_directoryconnection",
    query=PageQuery,
    output=Page[DirectoryRecord],
    surfaces=REST_ONLY,
)
def list_directories(call: Call, *, query: PageQuery) -> Page[DirectoryRecord]:
    """List the directory connections."""
    return page_of(call, DirectoryConnection.objects.all(), query=query, order=("name",), render=render)


@operation(
    "directories.read",
    "GET directories/{id}",
    "Read {a directory connection}",
    permission="directory.view_directoryconnection",
    output=DirectoryRecord,
    surfaces=REST_ONLY,
)
def read_directory(_: Call, *, id: UUID) -> DirectoryRecord:
    """Read one directory connection."""
    return render(_find(id))


@operation(
    "directories.create",
    "POST directories",
    "Create {a directory connection}",
    permission="directory.add_directoryconnection",
    creates=True,
    effect=Effect.ADMINISTER,
    body=CreateDirectory,
    output=DirectoryRecord,
    surfaces=REST_ONLY,
)
def create_directory(_: Call, *, body: CreateDirectory) -> DirectoryRecord:
    """Connect a directory. Test it before giving keys a link to it."""
    return _save(DirectoryConnection(), body.model_dump())


@operation(
    "directories.update",
    "PATCH directories/{id}",
    "Update {a directory connection}",
    permission="directory.change_directoryconnection",
    effect=Effect.ADMINISTER,
    body=UpdateDirectory,
    output=DirectoryRecord,
    surfaces=REST_ONLY,
)
def update_directory(_: Call, *, id: UUID, body: UpdateDirectory) -> DirectoryRecord:
    """Change a directory connection. Every process uses the new settings from the next request on.

    A change of `urls`, `startTls`, `caCertificate` or `bindDn` needs `bindPassword` in the same request: who does not
    know the password decides not where it is sent.
    """
    return _save(_find(id), body.model_dump(include=body.model_fields_set))


@operation(
    "directories.delete",
    "DELETE directories/{id}",
    "Delete {a directory connection}",
    permission="directory.delete_directoryconnection",
    effect=Effect.ADMINISTER,
    surfaces=REST_ONLY,
)
def delete_directory(_: Call, *, id: UUID) -> None:
    """Delete a directory connection that nothing uses."""
    try:
        _find(id).delete()
    except (ProtectedError, RestrictedError):
        raise Conflict(
            message("The directory connection is in use: API keys, roles, people or groups belong to it.")
        ) from None


@operation(
    "directories.test",
    "POST directories/{id}/test",
    "Test {a directory connection}",
    permission="directory.change_directoryconnection",
    output=ConnectionReport,
    surfaces=REST_ONLY,
)
def try_directory(call: Call, *, id: UUID) -> ConnectionReport:
    """Try a directory connection: servers, TLS, sign-in, schema and rights."""
    return try_and_record(call, _find(id))


@operation(
    "directories.test-new",
    "POST directories/test",
    "Test {a directory connection} before it is added",
    permission="directory.add_directoryconnection",
    body=CreateDirectory,
    output=ConnectionReport,
    surfaces=REST_ONLY,
)
def try_new_directory(call: Call, *, body: CreateDirectory) -> ConnectionReport:
    """Try a directory connection before it is made. Nothing is saved."""
    return try_and_record(call, new_connection(body))


@operation(
    "directories.rotate-password",
    "POST directories/{id}/rotate-password",
    "Rotate the bind password of {a directory connection}",
    permission="directory.rotate_bind_password",
    effect=Effect.UNDERTAKE,
    output=DirectoryRecord,
    surfaces=REST_ONLY,
)
def rotate_password(call: Call, *, id: UUID) -> DirectoryRecord:
    """Give the gateway's account in a directory a new password, which nobody is told.

    The directory's minimum password age holds. Other systems that sign in with the account stop working.
    """
    bind_password_rotation.rotate(call, _find(id))
    return render(_find(id))


@operation(
    "directories.rights",
    "GET directories/{id}/rights",
    "Read the rights of the gateway in {a directory}",
    permission="directory.change_directoryconnection",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=RightsQuery,
    output=RightsComparison,
    surfaces=frozenset({Surface.REST}),
)
def compare_rights(_: Call, *, id: UUID, query: RightsQuery) -> RightsComparison:
    """Compare what the gateway's account may do at a base, or wherever it is used, with what it needs there.

    Needed is what the permissions of keys linked to the directory and of people, superusers aside, come to: of
    attributes those that the console's forms have, and those written in the last 90 days. The lines that grant what is
    missing are for PowerShell, `dsacls` and `samba-tool`.
    """
    return compare_account_rights(id, query)

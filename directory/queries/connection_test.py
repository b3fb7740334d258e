"""The test of a connection: what each server answers, and what the gateway's own account may do there."""

from dataclasses import replace

from django.utils.translation import gettext as _
from typing_extensions import TypedDict

from active_directory import BadCredentials, Client, FunctionalLevel, LdapError, ServerCheck, check_server
from audit import log
from audit.models import Outcome
from core.call import Call
from core.configuration import RateLimit
from core.occasional_limits import require_below_limit
from directory.lookup.connection import server_settings
from directory.models import DirectoryConnection
from directory.protection.domain_control import unreadable_lists
from directory.queries.bind_attempts import CountedOpener
from directory.queries.connection_faults import Fault, FaultKind, base_fault, fault_of

_TESTS = RateLimit(Requests=20, WindowSeconds=60)
"""By one credential: each signs in at every server."""


class ServerReport(TypedDict):
    """What came of trying one server. `problem` is null when all went well.

    `fault` is which part of the connection it is about, `advice` what to do; both are null where nothing was tried.
    """

    url: str
    ok: bool
    server: str | None
    tls: str | None
    problem: str | None
    fault: FaultKind | None
    advice: str | None


class SchemaReport(TypedDict):
    attributes: int
    classes: int


class RightsReport(TypedDict):
    """What the gateway's account may do on the base: kinds of objects it may create, attributes it may write."""

    baseReadable: bool
    creatableClasses: list[str]
    writableAttributes: list[str]


class ConnectionReport(TypedDict):
    """What a test reached. Schema, rights and recycle bin are those of the first server that works, else null.

    `warnings` say what the gateway cannot do as it should.
    """

    ok: bool
    servers: list[ServerReport]
    namingContexts: list[str]
    functionalLevel: int | None
    schema: SchemaReport | None
    rights: RightsReport | None
    recycleBin: bool | None
    warnings: list[str]


def try_and_record(call: Call, row: DirectoryConnection) -> ConnectionReport:
    """Try a connection and record who did: its password goes to whatever servers it names.

    The record of a connection that is not saved yet names the servers.
    """
    require_below_limit("ConnectionTest", call.credential.unique_id, _TESTS)
    report = try_connection(call, row)
    saved = not row._state.adding
    name = row.name if saved else f"{row.name} ({', '.join(row.urls)})"
    log.record_read(
        call,
        operation="directories.test" if saved else "directories.test-new",
        target=log.TargetRef(id=row.pk if saved else None, kind="directories", distinguished_name=name),
        outcome=Outcome.SUCCEEDED if report["ok"] else Outcome.FAILED,
    )
    return report


def try_connection(call: Call, row: DirectoryConnection) -> ConnectionReport:
    """Connect to each server anew, sign in and look around; says for each what stands in the way.

    A refused password is not tried on the other servers: a domain counts it and locks the account. One that is not
    known to work is a guess of the caller's: raises TooManyWrongPasswords, RateLimited.
    """
    opener = CountedOpener(row, call)
    everything = server_settings(row)
    servers: list[ServerReport] = []
    reached: ServerCheck | None = None
    refused = False
    warnings: list[str] = []
    for url in everything.urls:
        if not row.is_bind_password_sealed:
            servers.append(_report(url, problem=_("Not tried: the bind password was given for other servers")))
            continue
        if refused:
            servers.append(_report(url, problem=_("Not tried, as the bind name or password was refused")))
            continue
        client = Client(replace(everything, urls=(url,), pool_size=1), opener)
        try:
            found = check_server(client)
            warnings = warnings or _warnings(client)
        except LdapError as error:
            refused = isinstance(error, BadCredentials)
            servers.append(_report(url, fault=fault_of(error, url, everything)))
        else:
            servers.append(_report(url, found, fault=None if found.base_readable else base_fault(found)))
            reached = reached or found
        finally:
            client.close()
    return {
        "ok": bool(servers) and all(server["ok"] for server in servers),
        "servers": servers,
        "namingContexts": list(reached.naming_contexts) if reached else [],
        "functionalLevel": reached.functional_level if reached else None,
        "schema": {"attributes": reached.attribute_count, "classes": reached.class_count} if reached else None,
        "rights": _rights(reached) if reached else None,
        "recycleBin": reached.recycle_bin if reached else None,
        "warnings": warnings,
    }


def _warnings(client: Client) -> list[str]:
    """What the gateway cannot do as it should with the rights of its account."""
    return [
        _(
            "The access control list of {name} cannot be read: accounts and groups that hold the domain by it are not "
            "known, and so not protected."
        ).format(name=name)
        for name in unreadable_lists(client)
    ]


def _report(
    url: str, found: ServerCheck | None = None, *, problem: str | None = None, fault: Fault | None = None
) -> ServerReport:
    tls = f"{found.tls_version}, {found.tls_cipher}" if found else None
    return {
        "url": url,
        "ok": problem is None and fault is None,
        "server": found.server if found else None,
        "tls": tls,
        "problem": fault.says if fault else problem,
        "fault": fault.kind if fault else None,
        "advice": f"{fault.advice.rstrip('.')}." if fault else None,
    }


def _rights(found: ServerCheck) -> RightsReport:
    return {
        "baseReadable": found.base_readable,
        "creatableClasses": list(found.creatable_classes),
        "writableAttributes": list(found.writable_attributes),
    }


def functional_level_name(level: int | None) -> str:
    """A functional level with the Windows release people know it by, as far as this version knows it."""
    if level is None:
        return _("unknown")
    try:
        name = FunctionalLevel(level).name.replace("_", " ").replace("WINDOWS", "Windows Server")
    except ValueError:
        return str(level)
    return f"{level} ({name})"

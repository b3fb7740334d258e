"""Reads the directory and the database without the gateway, by python-ldap and plain SQL.

`checks` compares it.
"""

import json
import sqlite3
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import ldap
import psycopg
from ldap.controls import LDAPControl

from faults.world import ATTRIBUTES
from lab.directory import Directory, random_name

TRACKED = (*ATTRIBUTES, "userAccountControl", "unicodePwd", "name")
"""Attributes whose versions are counted."""

Steps = dict[tuple[str, str], int]
"""By how much a change raises a version, by attribute and shape: `set`, `swap`, `clear`; for names `rename`, `move`."""

_SHOW_DELETED = LDAPControl("1.2.840.113556.1.4.417", True)
_HEADER, _ROW = struct.Struct("<QII"), struct.Struct("<IIq16sqq")  # [MS-DRSR] 5.153, [MS-ADTS] 3.1.1.1.9


@dataclass(frozen=True)
class ObservedObject:
    """An object in the directory. `versions` has those of the tracked attributes."""

    dn: str
    is_deleted: bool
    values: dict[str, list[bytes]]
    versions: dict[str, int]

    def text(self, name: str) -> str:
        """The first value, empty when there is none."""
        values = self.values.get(name)
        return values[0].decode() if values else ""


@dataclass(frozen=True)
class Record:
    """A record of the operations log. The client gave its `request` and `attempt` as the reason.

    `completed_at`, `server` and `evidence` are for people who investigate.
    """

    id: str
    at: datetime
    operation: str
    request: str
    attempt: str
    target: str | None
    target_dn: str | None
    changes: list[dict[str, Any]]
    outcome: str
    code: str | None
    change_request: str | None
    run: str | None
    index: int | None
    completed_at: str
    server: str | None
    evidence: dict[str, Any] | None


@dataclass(frozen=True)
class Calibration:
    """By how much one change of each shape raises an attribute's version, measured on sample objects."""

    attids: dict[str, int]
    steps: Steps
    created: dict[str, int]


def calibrate(directory: Directory, unit: str) -> Calibration:
    """Make one change of each shape as the gateway writes it, and measure how it raises versions."""
    connection = directory.connection
    user = directory.add_user(random_name("sample"), parent=unit)
    other = directory.add_unit("Sample", parent=unit)
    attids: dict[str, int] = {}
    steps: Steps = {}

    def measure(name: str, shape: str, change: Any) -> None:
        before = _versions(directory.read(user, "replPropertyMetaData"))
        change()
        after = _versions(directory.read(user, "replPropertyMetaData"))
        raised = {attid: version - before.get(attid, 0) for attid, version in after.items()}
        if name not in attids:
            attids[name] = next(attid for attid, by in raised.items() if by and attid not in _MAINTAINED)
        steps[name, shape] = raised[attids[name]]

    def modify(*changes: tuple[int, str, list[bytes] | None]) -> Any:
        return lambda: connection.modify_s(directory.dn(user), list(changes))

    for name in ATTRIBUTES:
        measure(name, "set", modify((ldap.MOD_ADD, name, [b"one"])))
        measure(name, "swap", modify((ldap.MOD_DELETE, name, [b"one"]), (ldap.MOD_ADD, name, [b"two"])))
        measure(name, "clear", modify((ldap.MOD_DELETE, name, [b"two"])))
    control = directory.read(user, "userAccountControl")["userAccountControl"][0]
    swapped = str(int(control) | 2).encode()
    swap = modify((ldap.MOD_DELETE, "userAccountControl", [control]), (ldap.MOD_ADD, "userAccountControl", [swapped]))
    measure("userAccountControl", "swap", swap)
    attids["unicodePwd"], attids["name"] = _UNICODE_PWD, _NAME
    measure("unicodePwd", "swap", modify((ldap.MOD_REPLACE, "unicodePwd", ['"Sample-Pass-1"'.encode("utf-16-le")])))
    measure("name", "rename", lambda: connection.rename_s(directory.dn(user), "CN=Sample renamed"))
    measure("name", "move", lambda: connection.rename_s(directory.dn(user), "CN=Sample renamed", newsuperior=other))
    new = directory.add(
        f"CN=Sample created,{unit}",
        {"objectClass": "user", "sAMAccountName": random_name("s"), "userAccountControl": "514"},
    )
    created = _named(_versions(directory.read(new, "replPropertyMetaData")), attids)
    directory.delete(new)
    directory.delete(user)
    directory.delete(directory.guid(other))
    return Calibration(attids, steps, created)


_UNICODE_PWD, _NAME = 0x9005A, 0x90001  # their attids, [MS-ADA3] and [MS-DRSR] 5.16.4
_MAINTAINED = {_UNICODE_PWD, _NAME}


def read_objects(
    directory: Directory, base: str, guids: Iterable[str], calibration: Calibration
) -> dict[str, ObservedObject]:
    """Read all objects below the base, and the deleted ones among `guids`, by objectGUID."""
    names = ("*", "replPropertyMetaData", "objectGUID")
    seen = {}
    for dn, values in directory.search("(objectClass=*)", *names, base=base).items():
        seen[str(UUID(bytes_le=values["objectGUID"][0]))] = _observed(dn, values, calibration, is_deleted=False)
    for guid in set(guids) - set(seen):
        try:
            found = directory.connection.search_ext_s(
                f"<GUID={guid}>", ldap.SCOPE_BASE, attrlist=list(names), serverctrls=[_SHOW_DELETED]
            )
        except ldap.NO_SUCH_OBJECT:
            continue
        dn, values = found[0]
        seen[guid] = _observed(dn, values, calibration, is_deleted=values.get("isDeleted") == [b"TRUE"])
    return seen


def find_deleted_objects(directory: Directory, base: str) -> set[str]:
    """The objectGUIDs of objects deleted below the base."""
    found = directory.connection.search_ext_s(
        f"CN=Deleted Objects,{directory.base_dn}",
        ldap.SCOPE_ONELEVEL,
        "(isDeleted=TRUE)",
        ["objectGUID", "lastKnownParent"],
        serverctrls=[_SHOW_DELETED],
    )
    parents = {
        str(UUID(bytes_le=values["objectGUID"][0])): values.get("lastKnownParent", [b""])[0].decode()
        for dn, values in found
        if dn is not None
    }
    return {guid for guid, parent in parents.items() if parent.lower().endswith(base.lower())}


def _observed(dn: str, values: dict[str, list[bytes]], calibration: Calibration, *, is_deleted: bool) -> ObservedObject:
    return ObservedObject(dn, is_deleted, values, _named(_versions(values), calibration.attids))


def _named(versions: dict[int, int], attids: dict[str, int]) -> dict[str, int]:
    return {name: versions.get(attid, 0) for name, attid in attids.items()}


def _versions(values: dict[str, list[bytes]]) -> dict[int, int]:
    blob = values["replPropertyMetaData"][0]
    count = _HEADER.unpack_from(blob)[1]
    rows = _ROW.iter_unpack(blob[_HEADER.size : _HEADER.size + count * _ROW.size])
    return {attid: version for attid, version, *_ in rows}


class Database:
    """Plain SQL on the gateway's tables, PostgreSQL or SQLite."""

    def __init__(self, url: str) -> None:
        self._url = url

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query without parameters."""
        if self._url.startswith("sqlite:///"):
            connection = sqlite3.connect(f"file:{self._url.removeprefix('sqlite:///')}?mode=ro", uri=True, timeout=30)
            try:
                return connection.execute(query).fetchall()
            finally:
                connection.close()
        with psycopg.connect(self._url) as live:
            return live.execute(query).fetchall()

    def changes(self) -> list[Record]:
        """The log's records of changes, oldest first."""
        columns = (
            *("id", "at", "operation", "reason", "target_id", "target_dn", "changes", "outcome", "code"),
            *("change_request_id", "run_id", "batch_index", "completed_at", "server", "evidence"),
        )
        rows = self.rows(
            f"SELECT {', '.join(columns)} FROM audit_operationrecord"  # noqa: S608 - our own
            " WHERE operation NOT LIKE '%.read' AND operation NOT LIKE '%.search' ORDER BY id"
        )
        return [_record(dict(zip(columns, row, strict=True))) for row in rows]

    def changes_by_server(self) -> dict[str, int]:
        """The number of recorded changes by domain controller."""
        rows = self.rows(
            "SELECT server, count(*) FROM audit_operationrecord"
            " WHERE outcome = 'succeeded' AND server IS NOT NULL AND server <> '' GROUP BY server ORDER BY server"
        )
        return dict(rows)

    def open_records(self) -> dict[str, str | None]:
        """The targets of records that are still pending or unknown, by record."""
        rows = self.rows("SELECT id, target_id FROM audit_operationrecord WHERE outcome IN ('pending', 'unknown')")
        return {_identifier(record): target and _identifier(target) for record, target in rows}

    def runs(self) -> list[tuple[str, str, int, int]]:
        """Each run's id, state, number of accounts and number of results."""
        rows = self.rows(
            "SELECT run.id, run.state, run.accounts, count(result.id) FROM directory_run run"
            " LEFT JOIN directory_accountresult result ON result.run_id = run.id"
            " GROUP BY run.id, run.state, run.accounts"
        )
        return [(_identifier(run), state, len(_parsed(accounts)), count) for run, state, accounts, count in rows]

    def change_requests(self) -> dict[str, tuple[str, str | None]]:
        """The status and problem code of each change request, by id."""
        rows = self.rows("SELECT id, status, problem FROM approvals_changerequest")
        return {_identifier(each): (status, (_parsed(problem) or {}).get("code")) for each, status, problem in rows}

    def scheduled(self) -> list["Scheduled"]:
        """The changes for later, and the ends of those for a while."""
        rows = self.rows("SELECT id, status, due_at, ends FROM approvals_changerequest WHERE due_at IS NOT NULL")
        return [
            Scheduled(_identifier(each), status, _moment(due_at), ends and _identifier(ends))
            for each, status, due_at, ends in rows
        ]


@dataclass(frozen=True)
class Scheduled:
    """A change request with a time; an end has the record of the change that it `ends`."""

    id: str
    status: str
    due_at: datetime
    ends: str | None


def _moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}+00:00")


def _record(row: dict[str, Any]) -> Record:
    request, _, attempt = (row["reason"] or "").partition(".")
    target, change_request, run = (
        row[name] and _identifier(row[name]) for name in ("target_id", "change_request_id", "run_id")
    )
    return Record(
        id=_identifier(row["id"]),
        at=_moment(row["at"]),
        request=request,
        attempt=attempt,
        target=target,
        changes=_parsed(row["changes"]) or [],
        change_request=change_request,
        run=run,
        index=row["batch_index"],
        completed_at=str(row["completed_at"]),
        evidence=_parsed(row["evidence"]),
        **{name: row[name] for name in ("operation", "target_dn", "outcome", "code", "server")},
    )


def _identifier(value: Any) -> str:
    return str(value if isinstance(value, UUID) else UUID(value))


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value

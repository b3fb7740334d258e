"""Reads the directory and the database without the gateway, by python-ldap and plain SQL.

`checks` compares it.
"""

import json
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import ldap
import psycopg

from faults.world import ATTRIBUTES
from lab.directory import SHOW_DELETED, Directory, random_name

TRACKED = {
    "title": 0xC,
    "department": 0x2008D,
    "company": 0x20092,
    "physicalDeliveryOfficeName": 0x13,
    "telephoneNumber": 0x14,
    "info": 0x20051,
    "userAccountControl": 0x90008,
    "unicodePwd": 0x9005A,
    "name": 0x90001,
}
"""Attributes whose versions are counted, with their ATTRTYP ([MS-DRSR] 5.16.4, by the default prefix table)."""

Values = dict[str, list[bytes]]
"""The attributes of an object."""

_HEADER, _ROW = struct.Struct("<QII"), struct.Struct("<IIq16sqq")  # [MS-DRSR] 5.153, [MS-ADTS] 3.1.1.1.9


@dataclass(frozen=True)
class ObservedObject:
    """An object in the directory. `versions` has those of the tracked attributes."""

    values: Values
    versions: dict[str, int]

    @property
    def dn(self) -> str:
        return self.text("distinguishedName")

    @property
    def is_deleted(self) -> bool:
        return "isDeleted" in self.values

    def texts(self, name: str) -> list[str]:
        """The values."""
        return [value.decode() for value in self.values.get(name, ())]

    def text(self, name: str) -> str:
        """The first value, empty when there is none."""
        return next(iter(self.texts(name)), "")


@dataclass(frozen=True)
class Record:
    """A record of the operations log. `completed_at` and `evidence` are for people who investigate."""

    id: str
    at: datetime
    operation: str
    reason: str
    target: str | None
    target_dn: str | None
    changes: list[dict[str, Any]]
    outcome: str
    change_request: str | None
    index: int | None
    completed_at: datetime | None
    server: str | None
    evidence: dict[str, Any] | None

    @property
    def request(self) -> str:
        """The request that it is of: the client gave that as the reason, with the number of the attempt."""
        return self.reason.partition(".")[0]

    @property
    def is_made(self) -> bool:
        """Whether it tells of a success."""
        return self.outcome == "succeeded"

    @property
    def is_open(self) -> bool:
        """Whether it does not tell yet what became of the change."""
        return self.outcome in ("pending", "unknown")

    def changes_of(self, name: str) -> list[tuple[list[str], list[str]]]:
        """The values of an attribute before and after each change of it."""
        return [(each["before"], each["after"]) for each in self.changes if each["attribute"] == name]


@dataclass(frozen=True)
class ChangeRequest:
    """A change request, with its time if it has one; an end has the record of the change that it `ends`."""

    id: str
    status: str
    problem: dict[str, Any] | None = None
    due_at: datetime | None = None
    ends: str | None = None


@dataclass(frozen=True)
class Calibration:
    """By how much changes raise versions, measured on sample objects.

    `steps` has them by attribute and the shape of the change: `set`, `swap`, `clear`; for names `rename` and `move`.
    `created` are the versions of a new user.
    """

    steps: dict[tuple[str, str], int]
    created: dict[str, int]


def calibrate(directory: Directory) -> Calibration:
    """Make one change of each shape as the gateway writes it, and measure how it raises versions."""
    unit = directory.add_unit(random_name("Sample"))
    user, other = directory.add_user(parent=unit), directory.add_unit("Other", parent=unit)
    steps: dict[tuple[str, str], int] = {}

    def versions_of(target: UUID) -> dict[str, int]:
        return _versions(directory.read(target, "replPropertyMetaData"))

    def measure(name: str, shape: str, change: Callable[[], object]) -> None:
        before = versions_of(user)[name]
        change()
        steps[name, shape] = versions_of(user)[name] - before

    def swap(name: str, old: str, new: str) -> Callable[[], object]:
        changes = [(ldap.MOD_DELETE, name, [old.encode()]), (ldap.MOD_ADD, name, [new.encode()])]
        return lambda: directory.connection.modify_s(directory.dn(user), changes)

    for name in ATTRIBUTES:
        measure(name, "set", partial(directory.add_values, user, **{name: "one"}))
        measure(name, "swap", swap(name, "one", "two"))
        measure(name, "clear", partial(directory.remove_values, user, **{name: "two"}))
    control = directory.text(user, "userAccountControl") or ""
    measure("userAccountControl", "swap", swap("userAccountControl", control, str(int(control) | 2)))
    measure("unicodePwd", "swap", partial(directory.modify, user, unicodePwd='"Sample-Pass-1"'.encode("utf-16-le")))
    measure("name", "rename", partial(directory.rename, user, "Sample renamed"))
    measure("name", "move", partial(directory.move, user, parent=other))
    created = versions_of(directory.add_user(parent=unit, userAccountControl="514"))
    directory.delete(unit, recursive=True)
    if not all(steps.values()):
        raise RuntimeError(f"a change raised no version: {steps}")
    return Calibration(steps, created)


def read_objects(directory: Directory, base: str) -> dict[str, ObservedObject]:
    """Read all objects below the base, and those that were deleted from there, by objectGUID."""
    names = ("*", "replPropertyMetaData", "objectGUID")
    found = list(directory.search("(objectClass=*)", *names, base=base).values())
    deleted = directory.connection.search_ext_s(
        f"CN=Deleted Objects,{directory.base_dn}", ldap.SCOPE_ONELEVEL, attrlist=names, serverctrls=[SHOW_DELETED]
    )
    for _, values in deleted:
        if values.get("lastKnownParent", [b""])[0].decode().lower().endswith(base.lower()):
            found.append(values)
    return {str(UUID(bytes_le=values["objectGUID"][0])): ObservedObject(values, _versions(values)) for values in found}


def _versions(values: Values) -> dict[str, int]:
    """The versions of the tracked attributes, 0 for one that the object never had."""
    blob = values["replPropertyMetaData"][0]
    count = _HEADER.unpack_from(blob)[1]
    rows = _ROW.iter_unpack(blob[_HEADER.size : _HEADER.size + count * _ROW.size])
    versions = {identifier: version for identifier, version, *_ in rows}
    return {name: versions.get(identifier, 0) for name, identifier in TRACKED.items()}


class Database:
    """Plain SQL on the gateway's tables, PostgreSQL or SQLite."""

    def __init__(self, url: str) -> None:
        self._url = url

    def changes(self) -> list[Record]:
        """The log's records of changes, oldest first."""
        rows = self._rows(
            "SELECT id, at, operation, coalesce(reason, '') AS reason, target_id AS target, target_dn, changes,"
            ' outcome, change_request_id AS change_request, batch_index AS "index", completed_at, server, evidence'
            " FROM audit_operationrecord"
            " WHERE operation NOT LIKE '%.read' AND operation NOT LIKE '%.search' ORDER BY id"
        )
        return [Record(**row) for row in rows]

    def open_records(self) -> dict[str, str | None]:
        """The targets of records that are still pending or unknown, by record."""
        rows = self._rows(
            "SELECT id, target_id AS target FROM audit_operationrecord WHERE outcome IN ('pending', 'unknown')"
        )
        return {row["id"]: row["target"] for row in rows}

    def runs(self) -> list[tuple[str, str, int, int]]:
        """Each run's id, state, number of accounts and number of results."""
        rows = self._rows(
            "SELECT run.id, run.state, run.accounts, count(result.id) AS results FROM directory_run run"
            " LEFT JOIN directory_accountresult result ON result.run_id = run.id"
            " GROUP BY run.id, run.state, run.accounts"
        )
        return [(row["id"], row["state"], len(row["accounts"]), row["results"]) for row in rows]

    def change_requests(self) -> list[ChangeRequest]:
        """All of them: those for later and the ends of those for a while, too."""
        rows = self._rows("SELECT id, status, problem, due_at, ends FROM approvals_changerequest")
        return [ChangeRequest(**row) for row in rows]

    def _rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, whose columns have the same types on both databases."""
        file = self._url.removeprefix("sqlite:///")
        is_sqlite = file != self._url
        with closing(
            sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30) if is_sqlite else psycopg.connect(self._url)
        ) as connection:
            found: Any = connection.execute(query)
            names = [column[0] for column in found.description]
            return [{name: _converted(name, value) for name, value in zip(names, row, strict=True)} for row in found]


_IDENTIFIERS = ("id", "target", "change_request", "ends")
_MOMENTS = ("at", "completed_at", "due_at")
_JSON = ("changes", "evidence", "accounts", "problem")


def _converted(name: str, value: Any) -> Any:
    """Convert what SQLite has as text, and identifiers to their usual form."""
    if name in _IDENTIFIERS and value is not None:
        return str(UUID(str(value)))
    if isinstance(value, str) and name in _MOMENTS:
        return datetime.fromisoformat(f"{value}+00:00")
    return json.loads(value) if isinstance(value, str) and name in _JSON else value

"""What makes a tampered log show: the code of each record, and the seals that chain them.

Both are HMACs with a key that the database does not hold. A record gets its code when it is made, over all that never
changes: so a record that somebody else inserts, or changes, is not authentic. A seal holds the records of a moment and
its predecessor's code: so none can be removed, exchanged or given back an earlier state. When the gateway itself
removes old records, the seals stay and another one says so. What a seal cannot show is that the newest ones were cut
off together with their records: for that, the head is noted elsewhere (`checkpoint`, `head_export`).

Sealing is in `sealing`, removing in `retention`, looking for tampering in `verification`.
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings

from audit.chain.append_only import COMPLETION, FILLED_IN, SEALING
from audit.models import OPEN_OUTCOMES, LogSeal, LogVerification, OperationRecord

_OWN: Final = frozenset({"mac", "call_id", *SEALING})
"""Columns that no code covers. `call_id` tells nothing of what was done, and processes of the release before, which do
not know it, go on sealing during an upgrade."""
_LATER: Final = frozenset({*COMPLETION, *FILLED_IN})
_COLUMNS: Final = tuple(field.attname for field in OperationRecord._meta.concrete_fields if field.attname not in _OWN)
_DEFAULTS: Final = {field.attname: field.get_default() for field in OperationRecord._meta.concrete_fields}
_AT_FIRST: Final = tuple(name for name in _COLUMNS if name not in _LATER)
_AT_LAST: Final = (*_COLUMNS, "mac")
_ADDED: Final = frozenset({"raised_access"})
"""Columns that came later: while one holds nothing, it is left out, as it was of the records from before."""

OPEN, FINAL, REMOVED = b"o", b"f", b"r"
"""Whether an entry of a seal holds a record that was open, by its code, one that is complete, by all of it, or says
that the complete records from before a moment were removed."""
ENTRY_BYTES: Final = 1 + 16 + 32


class Entry(NamedTuple):
    """One record in a seal; or a removal, of as many records as `digest` counts that came before `record_id`."""

    phase: bytes
    record_id: UUID
    digest: bytes


def mac_of(facts: Mapping[str, Any]) -> str:
    """The code of a new record, from its fields; what is left out has its default."""
    return _code(b"record", _canonical({name: facts.get(name, _DEFAULTS[name]) for name in _AT_FIRST})).hex()


def is_authentic(record: OperationRecord) -> bool:
    """Whether a record is one that the gateway made, unchanged in all that never changes."""
    content = _canonical({name: getattr(record, name) for name in _AT_FIRST})
    return _is_code(b"record", content, record.mac)


def entry_of(record: OperationRecord) -> Entry:
    """What a seal made now holds of a record."""
    if record.outcome in OPEN_OUTCOMES:
        return Entry(OPEN, record.id, bytes.fromhex(record.mac))
    return Entry(FINAL, record.id, _code(b"complete record", _final_content(record)))


def removal_entry(kept_from: UUID, removed: int) -> Entry:
    """What a seal says of a removal. Identifiers sort by their moment: what came before is less than `kept_from`."""
    return Entry(REMOVED, kept_from, removed.to_bytes(32))


def count_removed(entry: Entry) -> int:
    """How many records a removal says that it removed."""
    return int.from_bytes(entry.digest)


def agrees(entry: Entry, record: OperationRecord) -> bool:
    """Whether a record still is what a seal holds of it."""
    if entry.phase == OPEN:
        return _is_same(entry.digest, record.mac)
    return _is_code(b"complete record", _final_content(record), entry.digest.hex())


def _final_content(record: OperationRecord) -> bytes:
    return _canonical({name: getattr(record, name) for name in _AT_LAST})


def pack(entries: Iterable[Entry]) -> bytes:
    return b"".join(entry.phase + entry.record_id.bytes + entry.digest for entry in entries)


def unpack(packed: bytes) -> Iterator[Entry]:
    for start in range(0, len(packed), ENTRY_BYTES):
        part = packed[start : start + ENTRY_BYTES]
        yield Entry(part[:1], UUID(bytes=part[1:17]), part[17:])


def seal_after(previous: LogSeal | None, entries: Iterable[Entry], *, at: datetime) -> LogSeal:
    """The next seal of the chain, not saved."""
    packed = pack(entries)
    seal = LogSeal(
        number=previous.number + 1 if previous else 1,
        sealed_at=at,
        records=(previous.records if previous else 0) + len(packed) // ENTRY_BYTES,
        entries=packed,
        key=name_of_key(settings.LOG_KEYS[0]),
    )
    seal.mac = _code(b"seal", _seal_content(seal, previous)).hex()
    return seal


def name_of_key(key: str) -> str:
    """What a key is called in the seals that it makes; it tells nothing of the key."""
    return _code(b"name of the key", b"", key).hex()[:16]


def follows(seal: LogSeal, previous: LogSeal | None) -> bool:
    """Whether a seal is unchanged and the one made after `previous`."""
    return _is_code(b"seal", _seal_content(seal, previous), seal.mac)


def verification_mac(verification: LogVerification) -> str:
    """The code of the note that the log was verified."""
    return _code(b"verification", _verification_content(verification)).hex()


def is_authentic_verification(verification: LogVerification) -> bool:
    """Whether the gateway made this note itself."""
    return _is_code(b"verification", _verification_content(verification), verification.mac)


def mark_code(head: Mapping[str, Any]) -> str:
    """The code under which the head of the chain is noted outside the database."""
    return _code(b"mark", _canonical(head)).hex()


def is_mark_code(head: Mapping[str, Any], code: str) -> bool:
    """Whether the gateway made this note of a head itself."""
    return _is_code(b"mark", _canonical(head), code)


def _verification_content(verification: LogVerification) -> bytes:
    return _canonical({name: getattr(verification, name) for name in ("at", "seals", "records", "finding")})


def _seal_content(seal: LogSeal, previous: LogSeal | None) -> bytes:
    head = {
        "number": seal.number,
        "previous": previous.mac if previous else "",
        "records": seal.records,
        "sealed_at": seal.sealed_at,
        **({"key": seal.key} if seal.key else {}),
    }
    return _canonical(head) + bytes(seal.entries)


def _canonical(content: Mapping[str, Any]) -> bytes:
    """The same bytes for what was written and for what the database gives back."""
    return _encode({name: value for name, value in content.items() if value is not None or name not in _ADDED}).encode()


def _text(value: Any) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_text).encode


def _code(purpose: bytes, content: bytes, key: str | None = None) -> bytes:
    return hmac.digest(
        (key or settings.LOG_KEYS[0]).encode(), b"operations log, " + purpose + b"\0" + content, "sha256"
    )


def _is_code(purpose: bytes, content: bytes, code: str) -> bool:
    return any(_is_same(_code(purpose, content, key), code) for key in settings.LOG_KEYS)


def _is_same(own: bytes, stored: str) -> bool:
    """Whether the database has this code, in constant time. What it has may be anything."""
    return hmac.compare_digest(own.hex().encode(), str(stored).encode("utf-8", "surrogatepass"))

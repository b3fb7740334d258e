"""Writes the archive of a month: its complete records in one file, which verifies alone (`audit.verify_evidence`).

What is new in the log has to verify first, and a record is taken only as an unchanged seal names it: so the archive
proves what the log proved when it was made, on any machine that has the keys.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import BinaryField, Exists, OuterRef, Value

from audit.chain import sealing
from audit.chain.removals import find_closed, find_seal
from audit.chain.row_checks import AT_ONCE, MalformedRow, read_by_key
from audit.chain.seals import (
    FINAL,
    is_authentic,
    is_successor,
    matches_entry,
    name_of_key,
    unpack,
)
from audit.chain.verification import course_after_last, find_tampering
from audit.identifiers import identifier_bounds
from audit.models import OPEN_OUTCOMES, LogSeal, OperationRecord, UnsealedRecord
from audit.verify_evidence import FORMAT, archive_mac
from core.shapes import render_timestamp

_NOT_OF_A_RECORD: Final = {"mac", "seal", "sealed_as", "evidence", "settle_at", "settle_attempts"}
_COLUMNS: Final = [
    field.attname for field in OperationRecord._meta.concrete_fields if field.attname not in _NOT_OF_A_RECORD
]


class NotArchived(Exception):
    """Why there is no archive."""


def write_archive(file: Path, *, start: datetime, end: datetime) -> int:
    """Write the complete records of a month into a new file; return how many. Raises NotArchived and OSError.

    `start` and `end` are the first moments (UTC) of the month and of the next one.
    """
    sealing.seal_records()
    if finding := next(find_tampering(course=course_after_last()), None):
        raise NotArchived(f"{finding.sentence}.")
    first, end_id = identifier_bounds(start)[0], identifier_bounds(end)[0]
    if first < find_closed().kept_from:
        raise NotArchived("Records of that month were removed already.")
    digest, count = hashlib.sha256(), 0
    with file.open("xb") as raw:
        try:
            with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:

                def put(line: Any) -> None:
                    text = json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
                    digest.update(text)
                    packed.write(text)

                put({"archive": FORMAT, "month": f"{start:%Y-%m}", "key": name_of_key(settings.LOG_KEYS[0])})
                for record in _sealed_records(first, end_id):
                    put({name: _plain(getattr(record, name)) for name in _COLUMNS})
                    count += 1
                _require_all(count, first, end_id)
                content = {"records": count, "digest": digest.hexdigest()}
                put({**content, "mac": archive_mac(content, settings.LOG_KEYS[0])})
        except BaseException:
            with suppress(OSError):
                file.unlink()
            raise
    return count


def _sealed_records(first: UUID, end: UUID) -> Iterator[OperationRecord]:
    """The complete records with identifiers from `first` to before `end`, in the order of the seals that name them."""
    last_named, first_named = LogSeal._meta.indexes[0].expressions
    bounds = {
        "last__gte": Value(first.bytes, output_field=BinaryField()),
        "first__lt": Value(end.bytes, output_field=BinaryField()),
    }
    seals = LogSeal.objects.alias(last=last_named, first=first_named).filter(**bounds).order_by("number")
    for number in list(seals.values_list("number", flat=True)):
        seal, before = read_by_key(LogSeal, [number]).get(number), find_seal(number - 1)
        if not isinstance(seal, LogSeal) or isinstance(before, MalformedRow) or not is_successor(seal, before):
            raise NotArchived(f"The operations log was tampered with: seal {number} was changed.")
        named = unpack(bytes(seal.entries))
        entries = [entry for entry in named if entry.phase == FINAL and first <= entry.record_id < end]
        for start in range(0, len(entries), AT_ONCE):
            some = entries[start : start + AT_ONCE]
            records = read_by_key(OperationRecord, [entry.record_id for entry in some])
            for entry in some:
                record = records.get(entry.record_id)
                if record is None:
                    raise NotArchived(f"Record {entry.record_id} is not there any more.")
                if isinstance(record, MalformedRow) or not is_authentic(record) or not matches_entry(record, entry):
                    raise NotArchived(f"The operations log was tampered with: record {entry.record_id} was changed.")
                yield record


def _require_all(count: int, first: UUID, end: UUID) -> None:
    listed = Exists(UnsealedRecord.objects.filter(record_id=OuterRef("id")))
    complete = OperationRecord.objects.filter(~listed, id__gte=first, id__lt=end).exclude(outcome__in=OPEN_OUTCOMES)
    if complete.count() != count:
        raise NotArchived("The seals do not name each record of that month once.")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return render_timestamp(value)
    return str(value) if isinstance(value, UUID) else value

"""Verifies what was taken out of the operations log: with Python's standard library, the file and the log keys alone.

    GATEWAY_LOG_KEYS=… python3 verify_evidence.py 2025-12.gz
    GATEWAY_LOG_KEYS=… python3 verify_evidence.py evidence.json

The archive of a month is compressed text. Its first line says what it holds, each further one is a record, and the last
has the number of records and a MAC, under the log key, of all lines before. `audit.chain.archive` writes it.

Evidence of an object, a person, a key or a request is JSON: members that say what it is, and `records`. Each member of
both has a code, a MAC under the log key, so that what was changed can be named; `mac` is the MAC of all codes.
`operations.log.evidence` makes it.
"""

import gzip
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FORMAT: Final = "directory-management-gateway operations log 1"
EVIDENCE_FORMAT: Final = "directory-management-gateway evidence 1"

_NOT_GENUINE: Final = "It was changed, or was not made under any of the log keys at hand."


class NotGenuine(Exception):
    """Why a file is nothing that the gateway made: one reason on each line."""


def verify_file(file: Path, keys: Sequence[str]) -> str:
    """What a genuine file is, in a sentence. Raises NotGenuine for others, and OSError."""
    with file.open("rb") as opened:
        is_archive = opened.read(2) == b"\x1f\x8b"
    if not is_archive:
        evidence = read_evidence(file.read_bytes(), keys)
        made = f"made at {evidence['madeAt']} by {evidence['madeBy']}"
        more = "" if evidence["isComplete"] else ", but not all that match"
        return f"The evidence {made} is as it was made. Records: {len(evidence['records'])}{more}."
    month, records = read_archive(file, keys)
    return f"The archive of {month} is as it was written: {records} records."


def archive_mac(content: Mapping[str, Any], key: str) -> str:
    """The MAC of an archive's number of records and digest."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), b"operations log, archive\0" + text.encode(), "sha256").hexdigest()


def read_archive(file: Path, keys: Sequence[str]) -> tuple[str, int]:
    """The month of an archive and the number of its records. Raises NotGenuine unless the gateway made all of it."""
    digest, count, month = hashlib.sha256(), 0, ""
    try:
        with gzip.open(file, "rb") as packed:
            before: bytes | None = None
            for number, line in enumerate(packed):
                if number == 1:
                    month = _month_of(before or b"")
                if before is not None:
                    digest.update(before)
                    count += 1
                before = line
        last = json.loads(before or b"")
        content = {"records": last["records"], "digest": digest.hexdigest()}
        made = any(hmac.compare_digest(archive_mac(content, key).encode(), str(last["mac"]).encode()) for key in keys)
        is_ours = month and last == {**content, "mac": last["mac"]} and content["records"] == count - 1 and made
    except (EOFError, gzip.BadGzipFile, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise NotGenuine("It is cut off, or no archive of the operations log.") from None
    if not is_ours:
        raise NotGenuine(_NOT_GENUINE)
    return month, count - 1


def _month_of(header: bytes) -> str:
    found = json.loads(header)
    if found["archive"] != FORMAT:
        raise ValueError
    return str(found["month"])


def seal_evidence(evidence: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The `codes` of evidence, by place, and their `mac`."""
    codes = {place: _evidence_code(key, place, value) for place, value in _members(evidence)}
    return {"codes": codes, "mac": _evidence_code(key, "codes", codes)}


def read_evidence(text: bytes, keys: Sequence[str]) -> dict[str, Any]:
    """Evidence as the gateway made it. Raises NotGenuine, which names each member that was changed."""
    try:
        evidence = json.loads(text, object_pairs_hook=_without_repetition)
        members, codes, mac = dict(_members(evidence)), dict(evidence["codes"]), str(evidence["mac"])
        if evidence["format"] != EVIDENCE_FORMAT:
            raise ValueError
        wrong = {key: _wrong_members(members, codes, key) for key in keys}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotGenuine("It is cut off, or no evidence of the operations log.") from None
    key = min(wrong, key=lambda each: len(wrong[each]), default=None)
    if key is None or len(wrong[key]) == len({*members, *codes}):
        raise NotGenuine(_NOT_GENUINE)
    if wrong[key]:
        raise NotGenuine("\n".join(wrong[key]))
    if not _is_same(mac, _evidence_code(key, "codes", codes)):
        raise NotGenuine("Something was removed from it, or comes from other evidence.")
    doubted = [
        f"Record {number} was doubted when the evidence was made: {record['doubt']}"
        for number, record in enumerate(evidence["records"], 1)
        if "doubt" in record
    ]
    if doubted:
        raise NotGenuine("\n".join(doubted))
    return dict(evidence)


def _members(evidence: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The members of evidence and of its records, each with its place.

    Raises ValueError where one could be in the place of another, or a record without members would have no place.
    """
    if any(name.startswith("record ") for name in evidence) or not all(evidence["records"]):
        raise ValueError
    for name, value in evidence.items():
        if name not in ("codes", "mac", "records"):
            yield name, value
    for number, record in enumerate(evidence["records"], 1):
        yield from ((f"record {number}: {name}", value) for name, value in record.items())


def _wrong_members(members: Mapping[str, Any], codes: Mapping[str, str], key: str) -> list[str]:
    """Sentences that name the members that are not as they were under a key."""
    removed = (f"{_sentence_start(place)} was removed." for place in codes if place not in members)
    added = (f"{_sentence_start(place)} was added." for place in members if place not in codes)
    changed = (
        f"{_sentence_start(place)} was changed."
        for place, value in members.items()
        if place in codes and not _is_same(codes[place], _evidence_code(key, place, value))
    )
    return [*changed, *added, *removed]


def _sentence_start(place: str) -> str:
    return place[:1].upper() + place[1:] if place.startswith("record ") else place


def _evidence_code(key: str, place: str, value: Any) -> str:
    text = json.dumps([place, value], sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), b"operations log, evidence\0" + text.encode(), "sha256").hexdigest()[:32]


def _is_same(one: Any, other: str) -> bool:
    return hmac.compare_digest(str(one).encode("utf-8", "surrogatepass"), other.encode())


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. A repeated name would show a reader another value than the one that is verified."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def main(file: str) -> None:
    """Verify a file, or exit with 1 and say what is wrong with it."""
    keys = [key.strip() for key in os.environ.get("GATEWAY_LOG_KEYS", "").split(",") if key.strip()]
    try:
        sentence = verify_file(Path(file), keys)
    except (NotGenuine, OSError) as error:
        sys.exit("\n".join(f"{file}: {line}" for line in str(error).splitlines()))
    sys.stdout.write(f"{sentence}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

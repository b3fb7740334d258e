"""Was a write applied? Evidence taken before it, and the answer found afterwards by reading the directory.

A lost answer usually means a done change, so neither "failed" nor a second attempt is right without looking.
"""

from time import monotonic, sleep
from typing import Any
from uuid import UUID

from directory.ldap import (
    Add,
    AttributeType,
    Client,
    Delete,
    DistinguishedName,
    Entry,
    LdapError,
    Modify,
    Rename,
    Schema,
    Syntax,
    Write,
)
from directory.shapes.modifications import comparison_key

SECONDS_TO_COME_BACK = 6.0
"""How long a caller waits for the truth about a lost answer."""
SECONDS_OF_ABSENCE = 2.0
"""How long a change must have been absent to count as not applied."""

EVIDENCE_ATTRIBUTES = ("objectGUID", "replPropertyMetaData")
"""What an entry must have been read with for the evidence of a modify."""


def evidence_of(write: Write, *, entry: Entry | None = None, schema: Schema | None = None) -> dict[str, Any]:
    """What to keep of the state before a write; JSON-serialisable and without values that could be secret.

    A modify needs the entry (read with EVIDENCE_ATTRIBUTES) and the schema; a delete and a rename the entry.
    """
    match write:
        case Add():
            return {"write": "add", "dn": write.dn, "objectClass": write.attributes["objectClass"][0].decode()}
        case Modify() if entry is not None and schema is not None:
            return {"write": "modify", "id": str(entry.guid), **_modify_evidence(write, entry, schema)}
        case Delete() if entry is not None:
            return {"write": "delete", "id": str(entry.guid)}
        case Rename() if entry is not None:
            old = DistinguishedName.parse(entry.dn)
            parent = write.new_parent if write.new_parent is not None else str(old.parent)
            return {"write": "rename", "id": str(entry.guid), "dn": entry.dn, "newDn": f"{write.new_rdn},{parent}"}
    raise ValueError("this write needs an entry for its evidence")


def find_outcome(client: Client, evidence: dict[str, Any]) -> bool | None:
    """Whether the write with this evidence was applied; None when that cannot be known (now)."""
    try:
        match evidence.get("write"):
            case "add":
                created = client.find(evidence["dn"], ("objectClass",))
                return created is not None and evidence["objectClass"].lower() in map(str.lower, created.object_classes)
            case "delete":
                return client.find(UUID(evidence["id"]), ("objectGUID",)) is None
            case "rename":
                return _is_renamed(client, evidence)
            case "modify":
                return _is_modified(client, evidence)
    except LdapError:
        return None
    return None


def await_outcome(client: Client, evidence: dict[str, Any]) -> bool | None:
    """What `find_outcome` says to a caller who still waits: the domain controller gets a moment to come back.

    "Applied" is final. "Not applied" is believed only when it lasts: the write may still wait in the domain
    controller's socket when the first read of a new connection is answered.
    """
    deadline = monotonic() + SECONDS_TO_COME_BACK
    absent_since: float | None = None
    while True:
        applied = find_outcome(client, evidence)
        now = monotonic()
        if applied:
            return True
        if applied is None:
            absent_since = None
        elif absent_since is None:
            absent_since = now
        elif now - absent_since >= SECONDS_OF_ABSENCE:
            return False
        if now >= deadline:
            return None
        sleep(0.2)


def _modify_evidence(write: Modify, entry: Entry, schema: Schema) -> dict[str, Any]:
    """Versions by attid, or for links (which are replicated value by value and have none) the names added and removed.

    Every change of an attribute raises its version in replPropertyMetaData, of a password too ([MS-ADTS] 3.1.1.1.9).
    """
    known = entry.versions
    versions: dict[str, int] = {}
    added: dict[str, list[str]] = {}
    removed: dict[str, list[str]] = {}
    for step in write.modifications:
        attribute = schema.attribute(step.attribute)
        if attribute is None:
            continue
        if attribute.linked and attribute.syntax is Syntax.DN:
            texts = [value.decode() for value in step.values]
            (removed if step.op == "delete" else added).setdefault(attribute.name, []).extend(texts)
        elif attribute.attid is not None:
            versions[str(attribute.attid)] = known.get(attribute.attid, 0)
    return {"versions": versions, "added": added, "removed": removed}


def _is_modified(client: Client, evidence: dict[str, Any]) -> bool | None:
    links = {*evidence["added"], *evidence["removed"]}
    entry = client.find(UUID(evidence["id"]), (*EVIDENCE_ATTRIBUTES, *sorted(links)))
    if entry is None:
        return None  # deleted since: what happened before cannot be read any more
    if evidence["versions"] and "replPropertyMetaData" not in entry:
        return None  # the gateway's account may not read it here
    now = entry.versions
    # A modify is applied all or none, so one version that did not grow is proof enough that it was not.
    signs = [now.get(int(attid), 0) > before for attid, before in evidence["versions"].items()]
    for name in links:
        attribute = client.schema.attribute(name)
        if attribute is None:
            return None
        present = {comparison_key(attribute, value) for value in entry.values(name)}
        signs += [_key(attribute, text) in present for text in evidence["added"].get(name, ())]
        signs += [_key(attribute, text) not in present for text in evidence["removed"].get(name, ())]
    return all(signs) if signs else None


def _key(attribute: AttributeType, text: str) -> object:
    return comparison_key(attribute, text.encode())


def _is_renamed(client: Client, evidence: dict[str, Any]) -> bool | None:
    entry = client.find(UUID(evidence["id"]), ("objectGUID",))
    if entry is None:
        return None
    present = DistinguishedName.parse(entry.dn)
    if present == DistinguishedName.parse(evidence["newDn"]):
        return True
    return False if present == DistinguishedName.parse(evidence["dn"]) else None

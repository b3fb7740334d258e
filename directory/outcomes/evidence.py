"""Was a write applied? Evidence taken before it, and the answer found afterwards by reading the directory.

A lost answer usually means a done change, so neither "failed" nor a second attempt is right without looking.
"""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from active_directory import (
    NO_IDENTITIES,
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
    is_credential,
)
from audit.log import SECONDS_OF_ABSENCE
from directory.lookup.replication import server_of
from directory.shapes.modifications import comparison_key

SECONDS_TO_COME_BACK = 6.0
"""How long a caller waits for the truth about a lost answer."""

ATTID_OF_NAME = 0x90001  # attributeID 1.2.840.113556.1.4.1, by [MS-DRSR] 5.16.4

_WITNESSES = 16
"""How many of a link's values are kept as evidence: a modify is applied all or none, so some tell of all."""

EVIDENCE_ATTRIBUTES = ("objectGUID", "replPropertyMetaData")
"""What an entry must have been read with for the evidence of a modify."""


def evidence_of(
    write: Write,
    *,
    entry: Entry | None = None,
    schema: Schema | None = None,
    identities: Mapping[str, UUID] = NO_IDENTITIES,
) -> dict[str, Any]:
    """What to keep of the state before a write; JSON-serialisable and without values that could be secret.

    A modify needs the entry (read with EVIDENCE_ATTRIBUTES) and the schema; a delete, a rename and a restore the entry.
    For an addition it is the container. `identities` are the objects that a modify links to, by name: they may be
    renamed before anybody looks. `server` is the domain controller that this state is that of: the write is sent there,
    and nowhere else it can be found out soon what became of it.
    """
    evidence: dict[str, Any]
    match write:
        case Add():
            evidence = {"write": "add", "dn": write.dn, "objectClass": write.attributes["objectClass"][0].decode()}
        case Modify(deleted=True) if entry is not None:
            evidence = {"write": "restore", "id": str(entry.guid), "newDn": _restored_name(write)}
        case Modify() if entry is not None and schema is not None:
            evidence = {"write": "modify", "id": str(entry.guid), **_modify_evidence(write, entry, schema, identities)}
        case Delete() if entry is not None:
            evidence = {"write": "delete", "id": str(entry.guid)}
        case Rename() if entry is not None:
            evidence = {"write": "rename", "id": str(entry.guid), **_rename_evidence(write, entry)}
        case _:
            raise ValueError("this write needs an entry for its evidence")
    return evidence if entry is None or entry.server is None else {**evidence, "server": entry.server}


def find_outcome(client: Client, evidence: dict[str, Any]) -> bool | None:
    """Whether the write with this evidence was applied; None when that cannot be known (now).

    Its own domain controller is asked: on the others an absent change may only not have arrived yet.
    """
    look = _LOOKS.get(evidence.get("write", ""))
    client = client.at(server_of(evidence))
    try:
        return look(client, evidence) if look else None
    except LdapError:
        return None


def has_finished_writing(client: Client, evidence: dict[str, Any]) -> bool:
    """Whether the domain controller has finished all that it had begun with the object of this evidence.

    Only then does a change that stays absent mean that it was not made. See `Client.has_finished_writing`.
    """
    named: UUID | str | None = None
    if "id" in evidence:
        named = UUID(evidence["id"])
    elif "dn" in evidence:
        named = str(DistinguishedName.parse(evidence["dn"]).parent)
    try:
        return named is not None and client.at(server_of(evidence)).has_finished_writing(named)
    except LdapError:
        return False


def find_created(client: Client, evidence: dict[str, Any]) -> UUID | None:
    """The objectGUID of what an Add has made; None for any other write, and when it cannot be read (now)."""
    if evidence.get("write") != "add":
        return None
    try:
        created = _find_added(client.at(server_of(evidence)), evidence)
    except LdapError:
        return None
    return None if created is None else created.guid


def await_all(looks: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
    """What looks for outcomes say to a caller who still waits: the domain controller gets a moment to come back.

    "Applied" is final. "Not applied" is believed only when it lasts: the write may still wait in the domain
    controller's socket when the first read of a new connection is answered.
    """
    outcomes: dict[int, bool | None] = dict.fromkeys(range(len(looks)))
    waiting = list(outcomes)
    absent_since: dict[int, float] = {}
    deadline = monotonic() + SECONDS_TO_COME_BACK
    while waiting:
        for index in tuple(waiting):
            applied, now = looks[index](), monotonic()
            if applied is None:
                absent_since.pop(index, None)
            elif applied or now - absent_since.setdefault(index, now) >= SECONDS_OF_ABSENCE:
                outcomes[index] = applied
                waiting.remove(index)
            if now >= deadline:
                waiting.clear()
                break
        if waiting:
            sleep(0.2)
    return list(outcomes.values())


def look_twice_for_absent(looks: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
    """What looks for outcomes say to one whom nobody waits for; "not applied" when they say so again a moment later."""
    outcomes = [look() for look in looks]
    if False in outcomes:
        sleep(SECONDS_OF_ABSENCE)
    return [look() if outcome is False else outcome for look, outcome in zip(looks, outcomes, strict=True)]


def _modify_evidence(write: Modify, entry: Entry, schema: Schema, identities: Mapping[str, UUID]) -> dict[str, Any]:
    """Versions by attid, or for links (which are replicated value by value and have none) names added and removed.

    `steps` says how many steps of the modify are about each attribute: by so much Samba raises the version, except of a
    password, whose change it stores as one replacement.
    Every change of an attribute raises its version in replPropertyMetaData, of a password too ([MS-ADTS] 3.1.1.1.9).
    """
    known = entry.versions
    versions: dict[str, int] = {}
    steps: dict[str, int] = {}
    added: dict[str, list[str]] = {}
    removed: dict[str, list[str]] = {}
    for step in write.modifications:
        attribute = schema.attribute(step.attribute)
        if attribute is None:
            continue
        if attribute.linked and attribute.syntax is Syntax.DN:
            texts = [value.decode() for value in step.values[:_WITNESSES]]
            (removed if step.op == "delete" else added).setdefault(attribute.name, []).extend(texts)
        elif attribute.attid is not None:
            attid = str(attribute.attid)
            versions[attid] = known.get(attribute.attid, 0)
            steps[attid] = 1 if is_credential(attribute.name) else steps.get(attid, 0) + 1
    # A replace is applied whatever was there before: no other change excludes it (`directory.outcomes.attribution`).
    unguarded = all(step.op == "replace" for step in write.modifications)
    names = {name for links in (added, removed) for values in links.values() for name in values}
    return {
        "versions": versions,
        "steps": steps,
        "added": added,
        "removed": removed,
        "unguarded": unguarded,
        "ids": {name: str(identities[name]) for name in names if name in identities},
    }


def _is_modified(client: Client, evidence: dict[str, Any]) -> bool | None:
    links = {*evidence["added"], *evidence["removed"]}
    entry = client.find(UUID(evidence["id"]), (*EVIDENCE_ATTRIBUTES, *sorted(links)))
    if entry is None:
        return None  # deleted since: what happened before cannot be read any more
    if evidence["versions"] and "replPropertyMetaData" not in entry:
        return None  # the gateway's account may not read it here
    # A modify is applied all or none, so one version that did not grow is proof enough that it was not.
    if not has_grown(entry, evidence):
        return False
    signs = []
    named_now = names_now(client, evidence)
    for name in links:
        attribute = client.schema.attribute(name)
        if attribute is None:
            return None
        present = {comparison_key(attribute, value) for value in entry.values(name)}
        added, removed = evidence["added"].get(name, ()), evidence["removed"].get(name, ())
        for texts, is_wanted in ((added, True), (removed, False)):
            called = [name for text in texts if (name := named_now.get(text, text))]
            signs += [(key_of_link(attribute, each) in present) == is_wanted for each in called]
    if not signs:
        return True if evidence["versions"] else None
    # Some of each: somebody else has changed these links since, and what was ours cannot be told any more.
    return all(signs) if all(signs) or not any(signs) else None


def has_grown(entry: Entry, evidence: dict[str, Any]) -> bool:
    """Whether every version that a change raised is higher than before in an entry read with EVIDENCE_ATTRIBUTES."""
    versions = {int(attid): version for attid, version in evidence.get("versions", {}).items()}
    if evidence.get("nameVersion") is not None:
        versions[ATTID_OF_NAME] = evidence["nameVersion"]
    if not versions or "replPropertyMetaData" not in entry:
        return True
    return all(entry.versions.get(attid, 0) > before for attid, before in versions.items())


def names_now(client: Client, evidence: dict[str, Any]) -> dict[str, str]:
    """What the linked objects are called now, by their names then; empty for one that is deleted: it has no links."""
    ids = {name: UUID(guid) for name, guid in evidence.get("ids", {}).items()}
    found = client.read_many(ids.values(), ("objectGUID",))
    return {name: found[guid].dn if guid in found else "" for name, guid in ids.items()}


def growth(client: Client, evidence: dict[str, Any]) -> dict[str, int]:
    """By how much the versions in a modify's evidence have grown since, by attid. Raises LdapError."""
    entry = client.find(UUID(evidence["id"]), EVIDENCE_ATTRIBUTES)
    now = {} if entry is None else entry.versions
    return {attid: now.get(int(attid), 0) - before for attid, before in evidence["versions"].items()}


def key_of_link(attribute: AttributeType, text: str) -> object:
    """What tells the object that a value links to from others, however it is spelled."""
    return comparison_key(attribute, text.encode())


def _rename_evidence(write: Rename, entry: Entry) -> dict[str, Any]:
    """Both names, and the version of `name`, which every rename and every move raises ([MS-ADTS] 3.1.1.5.4.2)."""
    parent = write.new_parent if write.new_parent is not None else str(DistinguishedName.parse(entry.dn).parent)
    return {
        "dn": entry.dn,
        "newDn": f"{write.new_rdn},{parent}",
        "nameVersion": entry.versions.get(ATTID_OF_NAME),
    }


def _is_renamed(client: Client, evidence: dict[str, Any]) -> bool | None:
    entry = client.find(UUID(evidence["id"]), EVIDENCE_ATTRIBUTES)
    if entry is None:
        return None
    present, wanted = DistinguishedName.parse(entry.dn), DistinguishedName.parse(evidence["newDn"])
    # Names compare without regard to case, so that they cannot tell a rename that changes nothing else.
    before, now = evidence.get("nameVersion"), entry.versions.get(ATTID_OF_NAME)
    if before is None or now is None:  # the gateway's account may not read them here
        if present.rdn_value == wanted.rdn_value and present == wanted:
            return True
        return False if entry.dn == evidence["dn"] else None
    if now <= before:
        return False
    if present == wanted and present.rdn_value == wanted.rdn_value:
        return True
    # Renamed, perhaps by us and then by somebody else. After a single rename another name was not ours.
    return False if now == before + 1 and present.rdn_value != wanted.rdn_value else None


def _restored_name(write: Modify) -> str:
    return next(step.values[0].decode() for step in write.modifications if step.attribute == "distinguishedName")


def _is_restored(client: Client, evidence: dict[str, Any]) -> bool | None:
    guid = UUID(evidence["id"])
    entry = client.find(guid, ("objectGUID",))
    if entry is None:
        return False if client.find(guid, ("objectGUID",), deleted=True) is not None else None
    return True if DistinguishedName.parse(entry.dn) == DistinguishedName.parse(evidence["newDn"]) else None


def _find_added(client: Client, evidence: dict[str, Any]) -> Entry | None:
    """The object of the name and class of the one added that was made under this name, not renamed to it since."""
    entry = client.find(evidence["dn"], (*EVIDENCE_ATTRIBUTES, "objectClass"))
    if entry is None or evidence["objectClass"].lower() not in map(str.lower, entry.object_classes):
        return None
    return entry if entry.versions.get(ATTID_OF_NAME, 1) == 1 else None


_LOOKS: dict[str, Callable[[Client, dict[str, Any]], bool | None]] = {
    "add": lambda client, evidence: _find_added(client, evidence) is not None,
    "modify": _is_modified,
    "delete": lambda client, evidence: client.find(UUID(evidence["id"]), ("objectGUID",)) is None,
    "rename": _is_renamed,
    "restore": _is_restored,
}

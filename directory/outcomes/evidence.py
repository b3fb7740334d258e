"""Evidence of recorded writes: whether a domain controller applied one, and whether it shows all recent ones.

A write whose answer was lost has usually been applied, so neither reporting a failure nor trying again is right. The
gateway stores evidence before a write, and finds the outcome afterwards by reading the directory.

After a fail-over a domain controller may show an earlier state of an object. A change based on it would be overwritten,
or overwrite another one, once replication catches up: of two changes of an attribute the directory keeps one. So the
gateway changes nothing before it sees everything that the log holds of the object within `Directory:StickySeconds`. The
writers of two hosts that use different domain controllers see each other's intents, because each looks after it
committed its own.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import monotonic, sleep
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
    fold_case,
    is_credential,
    require_thread,
    servers_asked_so_far,
)
from audit.log import SECONDS_OF_ABSENCE
from audit.models import OPEN_OUTCOMES, OperationRecord
from core.shapes import Json, parse_guid
from directory.lookup.replication import (
    NotReplicatedYet,
    is_from_elsewhere,
    leaves_object,
    recent_changes,
    recent_changes_by_target,
    server_of,
)
from directory.shapes.modifications import comparison_key
from directory.shapes.proposal import Target

RECOVERY_SECONDS = 6.0
"""How long a caller waits for an unavailable domain controller that must show whether a write was applied."""

NAME_ATTID = 0x90001  # attributeID 1.2.840.113556.1.4.1, by [MS-DRSR] 5.16.4

_MAX_LINKS_KEPT = 16
"""How many values of a link are stored as evidence: a modify is atomic, so some values stand for all."""

EVIDENCE_ATTRIBUTES = ("objectGUID", "replPropertyMetaData")
"""The attributes that the evidence of a modify needs."""


def evidence_of(
    write: Write,
    *,
    entry: Entry,
    schema: Schema | None = None,
    identities: Mapping[str, UUID] = NO_IDENTITIES,
) -> Json:
    """What to store of the state before a write; JSON, without values that could be secret.

    A modify needs the schema and the entry read with EVIDENCE_ATTRIBUTES; for an add the entry is the container.
    `identities` maps the names of objects that a modify links to objectGUIDs, for they may be renamed before the
    evidence is used. The member `server` is the domain controller that showed this state: the write is sent to it, and
    no other one can tell soon whether the write was applied.
    """
    evidence: Json
    match write:
        case Add():
            evidence = {"write": "add", "dn": write.dn, "objectClass": write.attributes["objectClass"][0].decode()}
        case Modify(deleted=True):
            names = (step.values[0] for step in write.modifications if step.attribute == "distinguishedName")
            evidence = {"write": "restore", "id": str(entry.guid), "newDn": next(names).decode()}
        case Modify():
            assert schema is not None
            evidence = {"write": "modify", "id": str(entry.guid), **_modify_evidence(write, entry, schema, identities)}
        case Delete():
            evidence = {"write": "delete", "id": str(entry.guid)}
        case Rename():
            parent = write.new_parent or DistinguishedName.parse(entry.dn).parent
            evidence = {
                "write": "rename",
                "id": str(entry.guid),
                "dn": entry.dn,
                "newDn": f"{write.new_rdn},{parent}",
                # Every rename and every move raises the version of `name` ([MS-ADTS] 3.1.1.5.4.2).
                "nameVersion": entry.versions.get(NAME_ATTID),
            }
    return evidence if entry.server is None else {**evidence, "server": entry.server}


def find_outcome(client: Client, evidence: Json) -> bool | None:
    """Whether the write with this evidence was applied; None when that cannot be known (now).

    It asks the domain controller that got the write: on the others a missing change may only not have replicated yet.
    """
    probe = _PROBES.get(evidence.get("write", ""))
    client = client.at(server_of(evidence))
    try:
        return probe(client, evidence) if probe else None
    except LdapError:
        return None


def has_finished_writing(client: Client, evidence: Json) -> bool:
    """Whether the domain controller has finished every write of this evidence's object that it had begun.

    Only then does a missing change mean that it was not made. See `Client.has_finished_writing`.
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


def find_created(client: Client, evidence: Json) -> UUID | None:
    """The objectGUID of the object that an Add created; None for other writes, and when it cannot be read (now)."""
    if evidence.get("write") != "add":
        return None
    try:
        created = _find_added(client.at(server_of(evidence)), evidence)
    except LdapError:
        return None
    return None if created is None else created.guid


def await_outcomes(probes: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
    """Repeat probes for outcomes for up to RECOVERY_SECONDS, for a caller who waits; None for what stays unknown.

    "Applied" is final. "Not applied" must last for SECONDS_OF_ABSENCE: the write may still wait in the domain
    controller's socket when it answers the first read of a new connection.
    """
    require_thread()
    outcomes: dict[int, bool | None] = dict.fromkeys(range(len(probes)))
    waiting = list(outcomes)
    absent_since: dict[int, float] = {}
    deadline = monotonic() + RECOVERY_SECONDS
    while waiting:
        for index in tuple(waiting):
            applied, now = probes[index](), monotonic()
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


def confirm_outcomes(probes: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
    """The results of probes for outcomes; a "not applied" is confirmed by a second probe a moment later.

    For callers that nobody waits for, unlike `await_outcomes`.
    """
    require_thread()
    outcomes = [probe() for probe in probes]
    if False in outcomes:
        sleep(SECONDS_OF_ABSENCE)
    return [probe() if outcome is False else outcome for probe, outcome in zip(probes, outcomes, strict=True)]


def _modify_evidence(write: Modify, entry: Entry, schema: Schema, identities: Mapping[str, UUID]) -> Json:
    """The versions of changed attributes by attid, and the names added to and removed from links, which have none.

    Every change of an attribute, even a password, raises its version in replPropertyMetaData ([MS-ADTS] 3.1.1.1.9);
    links replicate value by value instead. `steps` counts the steps of the modify for each attribute: Samba raises the
    version by that number, except for a password, whose change it stores as one replacement.
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
        if attribute.is_linked and attribute.syntax is Syntax.DN:
            texts = [value.decode() for value in step.values[:_MAX_LINKS_KEPT]]
            (removed if step.op == "delete" else added).setdefault(attribute.name, []).extend(texts)
        elif attribute.attid is not None:
            attid = str(attribute.attid)
            versions[attid] = known.get(attribute.attid, 0)
            steps[attid] = 1 if is_credential(attribute.name) else steps.get(attid, 0) + 1
    # A replace succeeds whatever the old value is, so no other change excludes it (`directory.outcomes.attribution`).
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


def _is_modified(client: Client, evidence: Json) -> bool | None:
    links = {*evidence["added"], *evidence["removed"]}
    entry = client.find(UUID(evidence["id"]), (*EVIDENCE_ATTRIBUTES, *sorted(links)))
    if entry is None:
        return None  # deleted since, along with the metadata that would tell
    if evidence["versions"] and "replPropertyMetaData" not in entry:
        return None  # the bind account may not read it here
    # A modify is atomic, so a single version that did not grow proves that it was not applied.
    if not has_grown(entry, evidence):
        return False
    signs = []
    now_named = current_names(client, evidence)
    for name in links:
        attribute = client.schema.attribute(name)
        if attribute is None:
            return None
        present = {comparison_key(attribute, value) for value in entry.values(name)}
        added, removed = evidence["added"].get(name, ()), evidence["removed"].get(name, ())
        for texts, is_wanted in ((added, True), (removed, False)):
            links_to = [name for text in texts if (name := now_named.get(text, text))]
            signs += [(link_key(attribute, name) in present) == is_wanted for name in links_to]
    if not signs:
        return True if evidence["versions"] else None
    # Contradictory signs: somebody else has changed these links since, and our own change no longer shows.
    return all(signs) if all(signs) or not any(signs) else None


def has_grown(entry: Entry, evidence: Json) -> bool:
    """Whether an entry, read with EVIDENCE_ATTRIBUTES, has higher versions than before for all that a change raised."""
    versions = {int(attid): version for attid, version in evidence.get("versions", {}).items()}
    if evidence.get("nameVersion") is not None:
        versions[NAME_ATTID] = evidence["nameVersion"]
    if not versions or "replPropertyMetaData" not in entry:
        return True
    now = entry.versions
    return all(now.get(attid, 0) > before for attid, before in versions.items())


def current_names(client: Client, evidence: Json) -> dict[str, str]:
    """Current names of the objects linked in the evidence, by recorded name; empty for a deleted one without links."""
    ids = {name: UUID(guid) for name, guid in evidence.get("ids", {}).items()}
    found = client.read_many(ids.values(), ("objectGUID",))
    return {name: found[guid].dn if guid in found else "" for name, guid in ids.items()}


def version_growth(client: Client, evidence: Json) -> dict[str, int]:
    """By how much the versions in a modify's evidence have grown since, by attid. Raises LdapError."""
    entry = client.find(UUID(evidence["id"]), EVIDENCE_ATTRIBUTES)
    now = {} if entry is None else entry.versions
    return {attid: now.get(int(attid), 0) - before for attid, before in evidence["versions"].items()}


def link_key(attribute: AttributeType, text: str) -> object:
    """A key that identifies the object that a value links to, however the value is spelled."""
    return comparison_key(attribute, text.encode())


def _is_renamed(client: Client, evidence: Json) -> bool | None:
    entry = client.find(UUID(evidence["id"]), EVIDENCE_ATTRIBUTES)
    if entry is None:
        return None
    present, wanted = DistinguishedName.parse(entry.dn), DistinguishedName.parse(evidence["newDn"])
    # Names compare without regard to case, so a rename that changes only the case shows in the version alone.
    before, now = evidence.get("nameVersion"), entry.versions.get(NAME_ATTID)
    if before is None or now is None:  # the bind account may not read the metadata here
        if present.rdn_value == wanted.rdn_value and present == wanted:
            return True
        return False if entry.dn == evidence["dn"] else None
    if now <= before:
        return False
    if present == wanted and present.rdn_value == wanted.rdn_value:
        return True
    # Renamed, perhaps by us and then by somebody else. A single rename to another name was not ours.
    return False if now == before + 1 and present.rdn_value != wanted.rdn_value else None


def _is_restored(client: Client, evidence: Json) -> bool | None:
    guid = UUID(evidence["id"])
    entry = client.find(guid, ("objectGUID",))
    if entry is None:
        return False if client.find(guid, ("objectGUID",), deleted=True) is not None else None
    return True if DistinguishedName.parse(entry.dn) == DistinguishedName.parse(evidence["newDn"]) else None


def _find_added(client: Client, evidence: Json) -> Entry | None:
    """The object with the name and class of the added one, unless it got this name by a rename."""
    entry = client.find(evidence["dn"], (*EVIDENCE_ATTRIBUTES, "objectClass"))
    if entry is None or evidence["objectClass"].lower() not in map(str.lower, entry.object_classes):
        return None
    return entry if entry.versions.get(NAME_ATTID, 1) == 1 else None


_PROBES: dict[str, Callable[[Client, Json], bool | None]] = {
    "add": lambda client, evidence: _find_added(client, evidence) is not None,
    "modify": _is_modified,
    "delete": lambda client, evidence: client.find(UUID(evidence["id"]), ("objectGUID",)) is None,
    "rename": _is_renamed,
    "restore": _is_restored,
}


def require_replicated(client: Client, server: str | None, reference: UUID | str, own: UUID) -> None:
    """Raise NotReplicatedYet while a server lacks a recent change of the object, made or possibly made at another one.

    Call it before a write whose intent (`own`) is in the log. It costs nothing with a single server, and little as long
    as all processes use the same one. Raises LdapError.
    """
    here = client.at(server)
    if not here.claim():
        changes = [each for each in recent_changes(reference) if each.id != own]
        _require_changes_replicated(here, server, reference, changes)


def require_reads_replicated(client: Client, servers: Collection[str], objects: Collection[Target]) -> None:
    """Raise NotReplicatedYet while a server that objects were read from lacks a recent change of one of them.

    Call it before a conclusion from these reads takes effect, with all servers that were asked: two reads may have gone
    to different domain controllers. It claims no server, for nothing is written. Raises LdapError.
    """
    if len(client.settings.urls) == 1:
        return
    for server in servers:
        if server not in client.settings.urls or client.preferred_controller.is_only_writer(server):
            continue
        here = client.at(server)
        changes = recent_changes_by_target([each.id for each in objects if each.id is not None])
        for each in objects:
            if each.id is not None:
                _require_changes_replicated(here, server, each.id, changes.get(each.id, []))
            else:
                _require_changes_replicated(
                    here, server, each.distinguished_name, recent_changes(each.distinguished_name)
                )


def require_name_still_taken(client: Client, other: Entry) -> None:
    """Raise NotReplicatedYet if the object that has a name or identifier here may have lost it at another server."""
    require_reads_replicated(client, servers_asked_so_far(), [Target(other.guid, "", other.dn)])


_SHOWN_AT_MOST = 20_000
_shown: set[tuple[str | None, UUID]] = set()
"""The records whose changes a server has shown: it does not lose them again.

Without this each of many changes of a group would look up all members that the others have added or removed.
"""


def _require_changes_replicated(
    here: Client, server: str | None, reference: UUID | str, changes: Sequence[OperationRecord]
) -> None:
    elsewhere = [each for each in changes if is_from_elsewhere(here, each, server) and (server, each.id) not in _shown]
    if not elsewhere:
        return
    is_open = any(each.outcome in OPEN_OUTCOMES for each in elsewhere)
    if is_open or not _shows_changes(here, reference, changes, elsewhere):
        raise NotReplicatedYet
    if isinstance(reference, UUID):  # a name may have another object by now
        if len(_shown) > _SHOWN_AT_MOST:
            _shown.clear()
        _shown.update((server, each.id) for each in elsewhere)


def _shows_changes(
    client: Client, reference: UUID | str, changes: Sequence[OperationRecord], elsewhere: Sequence[OperationRecord]
) -> bool:
    """Whether the server shows the object as these changes, the latest first, left it.

    Those made `elsewhere` are looked at, as far as no later one has undone them.
    """
    is_expected = leaves_object(changes[0], reference)
    if isinstance(reference, str):
        return (client.find(reference, ("objectGUID",)) is not None) == is_expected
    links = {attribute for attribute, _ in _latest_links(elsewhere)}
    entry = client.find(reference, (*EVIDENCE_ATTRIBUTES, *sorted(links)))
    if entry is None or not is_expected:
        return (entry is not None) == is_expected
    is_grown = all(has_grown(entry, each.evidence or {}) for each in elsewhere)
    return is_grown and _links_hold(client, entry, changes, elsewhere)


_Link = tuple[str, str]
"""An attribute, and the linked object: its objectGUID, or its folded name in evidence without objectGUIDs."""


def _latest_links(changes: Iterable[OperationRecord]) -> dict[_Link, tuple[str, bool]]:
    """How these changes, the latest first, left each link: the recorded name, and whether it was added."""
    latest: dict[_Link, tuple[str, bool]] = {}
    for change in changes:
        evidence = change.evidence or {}
        ids = evidence.get("ids", {})
        for action in ("added", "removed"):
            for attribute, texts in evidence.get(action, {}).items():
                for text in texts:
                    latest.setdefault((attribute, ids.get(text, fold_case(text))), (text, action == "added"))
    return latest


def _links_hold(
    client: Client, entry: Entry, changes: Sequence[OperationRecord], elsewhere: Sequence[OperationRecord]
) -> bool:
    """Whether each link changed elsewhere is as its latest change left it; links have no versions to compare."""
    latest, concerned = _latest_links(changes), _latest_links(elsewhere)
    guids = {guid for _, linked in concerned if (guid := parse_guid(linked)) is not None}
    found = client.read_many(guids, ("objectGUID",))
    present: dict[str, set[object]] = {}
    for link in concerned:
        name, linked = link
        attribute = client.schema.attribute(name)
        if attribute is None:
            continue
        if name not in present:
            present[name] = {link_key(attribute, value) for value in entry.texts(name)}
        text, is_added = latest[link]
        # An object without a current name is deleted or has not replicated itself: nothing links to it.
        guid = parse_guid(linked)
        current = text if guid is None else found[guid].dn if guid in found else ""
        if (bool(current) and link_key(attribute, current) in present[name]) != is_added:
            return False
    return True

"""Which rights make up which task: the table, and how entries are put under the names of tasks.

What was delegated, and by which object's entries, is found in `delegations`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from active_directory import FULL_CONTROL, AccessMask, Ace, ObjectType, ObjectTypes, Subject
from directory.shapes.kinds import RESOURCES

ANY_CLASS = "*"
_NOTHING = AccessMask(0)


@dataclass(frozen=True, slots=True)
class Need:
    """Rights that one entry must have all of, for a task.

    They are confined to the thing of that kind and name; where `subject` is None, to no attribute, class of children or
    extended right. `below` is the class whose objects the entry is about, ANY_CLASS for whatever it is. `along` are
    rights that usually come with them and mean nothing of their own then.
    """

    rights: AccessMask
    subject: Subject | None = None
    name: str = ""
    below: str = ANY_CLASS
    along: AccessMask = _NOTHING


class Task:
    """A task's name and everything it needs; several of one name are several ways to hold it."""

    def __init__(self, name: str, *needs: Need) -> None:
        self.name = name
        self.needs = needs


def read(attribute: str) -> Need:
    """Reading an attribute; a confidential one asks for control access, too ([MS-ADTS] 3.1.1.4.4)."""
    return Need(AccessMask.READ_PROPERTY, Subject.ATTRIBUTE, attribute, along=AccessMask.CONTROL_ACCESS)


def write(name: str, subject: Subject = Subject.ATTRIBUTE) -> Need:
    """Writing an attribute, which is of no use without reading it."""
    return Need(AccessMask.WRITE_PROPERTY, subject, name, along=AccessMask.READ_PROPERTY)


def extended_right(name: str, *, below: str = ANY_CLASS) -> Need:
    """An extended right, by its common name."""
    return Need(AccessMask.CONTROL_ACCESS, Subject.EXTENDED_RIGHT, name, below)


def validated_write(name: str, *, below: str = ANY_CLASS) -> Need:
    """A write whose value the directory checks, by its common name."""
    return Need(AccessMask.SELF_WRITE, Subject.VALIDATED_WRITE, name, below)


def create(object_class: str) -> Need:
    """Creating objects of a class directly below."""
    return Need(AccessMask.CREATE_CHILD, Subject.CLASS, object_class)


_PLURALS = {
    **{resource.object_class: resource.many for resource in RESOURCES.values() if resource.object_class},
    "inetOrgPerson": "inetOrgPerson users",
}
_READING = AccessMask.LIST_CHILDREN | AccessMask.LIST_OBJECT | AccessMask.READ_CONTROL

_LAPS_PASSWORDS = ("ms-Mcs-AdmPwd", "msLAPS-Password", "msLAPS-EncryptedPassword", "msLAPS-EncryptedPasswordHistory")
_REPLICATION = (
    "DS-Replication-Get-Changes",
    "DS-Replication-Get-Changes-All",
    "DS-Replication-Get-Changes-In-Filtered-Set",
)

FULL = "Full control"
CUSTOM = "Custom"
# From the widest to the narrowest: rights that one task has taken are not named again by a later one. Before all of
# them comes full control of the object, or of the objects of one class below it.
TASKS: tuple[Task, ...] = (
    *(
        Task(f"Create and delete {plural}", create(name), Need(AccessMask.DELETE_CHILD, Subject.CLASS, name))
        for name, plural in _PLURALS.items()
    ),
    Task("Create and delete all objects", Need(AccessMask.CREATE_CHILD), Need(AccessMask.DELETE_CHILD)),
    Task("Join computers to the domain", create("computer")),
    Task(
        "Join computers to the domain",
        extended_right("User-Force-Change-Password", below="computer"),
        validated_write("Validated-DNS-Host-Name", below="computer"),
        validated_write("Validated-SPN", below="computer"),
    ),
    Task("Reset password", extended_right("User-Force-Change-Password")),
    Task("Force password change at next sign-in", write("pwdLastSet")),
    Task("Unlock accounts", write("lockoutTime")),
    Task("Enable and disable accounts", write("userAccountControl")),
    Task("Manage group membership", write("member")),
    Task("Manage group membership", write("Membership", Subject.PROPERTY_SET)),
    Task("Link group policies", write("gPLink"), write("gPOptions")),
    Task("Link group policies", write("gPLink")),
    *(Task("Read LAPS passwords", read(name)) for name in _LAPS_PASSWORDS),
    *(Task("Replicate directory changes", extended_right(name)) for name in _REPLICATION),
    Task("Read all properties", Need(AccessMask.READ_PROPERTY, along=_READING)),
    Task(
        "Write all properties",
        Need(AccessMask.WRITE_PROPERTY, along=AccessMask.SELF_WRITE | AccessMask.READ_CONTROL),
    ),
    Task("Create all objects", Need(AccessMask.CREATE_CHILD)),
    Task("Delete all objects", Need(AccessMask.DELETE_CHILD)),
    Task("Delete objects with all below", Need(AccessMask.DELETE_TREE, along=AccessMask.DELETE)),
    Task("Delete objects", Need(AccessMask.DELETE)),
    Task("All extended rights", Need(AccessMask.CONTROL_ACCESS)),
    Task("All validated writes", Need(AccessMask.SELF_WRITE)),
    Task("Modify permissions", Need(AccessMask.WRITE_DACL)),
    Task("Take ownership", Need(AccessMask.WRITE_OWNER)),
    Task("List contents", Need(AccessMask.LIST_CHILDREN, along=_READING)),
    Task("Read permissions", Need(AccessMask.READ_CONTROL)),
)

# Rights that an object type confines, those of one kind of things together.
_OF_CHILDREN = AccessMask.CREATE_CHILD | AccessMask.DELETE_CHILD
_OF_PROPERTIES = AccessMask.READ_PROPERTY | AccessMask.WRITE_PROPERTY
_CONFINABLE = (_OF_CHILDREN, _OF_PROPERTIES, AccessMask.CONTROL_ACCESS, AccessMask.SELF_WRITE)
_PROPERTIES = (Subject.ATTRIBUTE, Subject.PROPERTY_SET)
_CHILD_ACTIONS = {
    AccessMask.CREATE_CHILD: "Create",
    AccessMask.DELETE_CHILD: "Delete",
    _OF_CHILDREN: "Create and delete",
}


@dataclass(slots=True)
class Grant:
    """An entry, and those of its rights that no task has taken yet; generic ones as what they stand for."""

    ace: Ace
    rights: AccessMask


def name_tasks(grants: Sequence[Grant], types: ObjectTypes) -> dict[str, list[Ace]]:
    """The entries under the names of the tasks they make up, in the order of the table.

    The entries are those of one principal, on one object, that all grant or all deny. Rights that make up no task of
    the table are named for what they are, or Custom. Takes the rights of the grants.
    """
    tasks: dict[str, list[Ace]] = {}
    for grant in grants:
        if FULL_CONTROL in grant.rights and grant.ace.object_type is None:
            below = grant.ace.inherited_object_type
            grant.rights &= ~FULL_CONTROL
            _add(tasks, f"Manage {_plural(types.name_of(Subject.CLASS, below))}" if below else FULL, grant.ace)
    for task in TASKS:
        _take(task, grants, types, tasks)
    for grant in grants:
        for name in _own_names(grant, types):
            _add(tasks, name, grant.ace)
    return tasks


def _take(task: Task, grants: Sequence[Grant], types: ObjectTypes, tasks: dict[str, list[Ace]]) -> None:
    holding = [[grant for grant in grants if _has(grant, need, types)] for need in task.needs]
    if not all(holding):
        return
    for need, some in zip(task.needs, holding, strict=True):
        for grant in some:
            grant.rights &= ~(need.rights | need.along)
            _add(tasks, task.name, grant.ace)


def _has(grant: Grant, need: Need, types: ObjectTypes) -> bool:
    if need.rights not in grant.rights:
        return False
    wanted = types.guid_of(need.subject, need.name) if need.subject else None
    if grant.ace.object_type != wanted or (need.subject is not None and wanted is None):
        return False
    if need.below == ANY_CLASS:
        return True
    below = grant.ace.inherited_object_type
    return below is not None and below == types.guid_of(Subject.CLASS, need.below)


def _own_names(grant: Grant, types: ObjectTypes) -> Iterator[str]:
    """Names for the rights that are left."""
    left = grant.rights
    if grant.ace.object_type is None:
        if left:
            yield CUSTOM
        return
    for rights in _CONFINABLE:
        if left & rights:
            meaning = types.resolve(grant.ace.object_type, left & rights)
            # Control access to a confidential attribute is part of reading or writing it.
            is_part = rights is AccessMask.CONTROL_ACCESS and meaning.subject in _PROPERTIES
            if not (is_part and grant.rights & _OF_PROPERTIES):
                yield _own_name(meaning, left & rights)
        left &= ~rights
    if left:
        yield CUSTOM


def _own_name(meaning: ObjectType, rights: AccessMask) -> str:
    if meaning.name is None:
        return CUSTOM
    if meaning.subject is Subject.CLASS:
        action = _CHILD_ACTIONS.get(rights & _OF_CHILDREN)
        return f"{action} {_plural(meaning.name)}" if action else CUSTOM
    if meaning.subject in _PROPERTIES:
        return f"{'Write' if AccessMask.WRITE_PROPERTY in rights else 'Read'} {meaning.name}"
    return meaning.name.replace("-", " ")


def _plural(object_class: str | None) -> str:
    return _PLURALS.get(object_class or "", f"{object_class or 'unknown'} objects")


def _add(tasks: dict[str, list[Ace]], name: str, ace: Ace) -> None:
    entries = tasks.setdefault(name, [])
    if not any(known is ace for known in entries):
        entries.append(ace)

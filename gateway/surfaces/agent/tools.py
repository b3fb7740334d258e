"""The tools: which there are, and which operations of the registry each one stands for. One table, and no rule in it.

What a tool takes is made from the shapes of its operations (`schemas`), what it does is the pipeline's (`calls`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from core.call import Call
from core.operation import SIGNED_IN, find_operation
from directory.shapes.kinds import RESOURCES

Way = tuple[str, str]
"""What a tool can be asked for: a kind of objects (by its plural name), and what is done with it."""

KINDS: Final = tuple(RESOURCES)
ACCOUNTS: Final = tuple(name for name, resource in RESOURCES.items() if resource.has_account)
_BELONGING: Final = (*ACCOUNTS, "groups")


class Behaviour(StrEnum):
    """What a tool does to the directory at most."""

    READS = "reads"
    ADDS = "adds"
    CHANGES = "changes"
    WITHDRAWS = "withdraws"  # what it asked for itself; nothing of the directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `serves` names the operation that each way of using it stands for; `includes` are those of its ways
    that come with another one's answer. `renamed` are members of the operations' shapes under the names that agents
    know them by, `hidden` those that agents need not know of. `takes` are arguments of the tool's own, `needs` those
    that have to be given, `identified_by` what its `id` is. With `few_attributes` few are shown unless named.
    """

    name: str
    title: str
    description: str
    behaviour: Behaviour
    serves: Mapping[Way, str]
    includes: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset({"kind", "id", "action", "reason"})
    identified_by: str = "objectGUID."
    few_attributes: bool = False

    @property
    def changes_directory(self) -> bool:
        """Whether it wants a reason, and has a dry run."""
        return self.behaviour in (Behaviour.ADDS, Behaviour.CHANGES)

    def ways_of(self, call: Call) -> frozenset[Way]:
        """The ways of using it that the caller is admitted to; what a target asks for besides is not known here."""
        return frozenset(way for way, name in self.serves.items() if _admits(name, call))


def _admits(operation: str, call: Call) -> bool:
    permission = find_operation(operation).permission
    return SIGNED_IN in permission or bool(permission & call.permissions)


def _each(kinds: Iterable[str], *deeds: str) -> dict[Way, str]:
    """The operations of these verbs on each of these kinds."""
    return {(kind, deed): f"{kind}.{deed}" for kind in kinds for deed in deeds}


def _all_by(kinds: Iterable[str], deed: str, operation: str) -> dict[Way, str]:
    """One operation that serves several kinds."""
    return dict.fromkeys(((kind, deed) for kind in kinds), operation)


PREVIEW: Final = "preview_change"
DESCRIBE: Final = "describe"
OWN_REQUESTS: Final = "my_change_requests"

TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool(
            name="search_directory",
            title="Search the directory",
            description="Find objects of one kind by text, LDAP filter, place or account state. Shows a few attributes"
            " of each; says when there is more.",
            behaviour=Behaviour.READS,
            serves={
                **_each((*KINDS, "service-accounts", "deleted-objects"), "search"),
                **_all_by((*ACCOUNTS, "service-accounts"), "state", "accounts.search"),
            },
            renamed={"pageSize": "limit"},
            hidden=frozenset({"kinds", "types"}),
            needs=frozenset({"kind"}),
            few_attributes=True,
        ),
        Tool(
            name="read_object",
            title="Read an object",
            description="Read one object by objectGUID or distinguished name, with what else is asked for in include.",
            behaviour=Behaviour.READS,
            serves={
                **_each(KINDS, "read", "read-by-dn"),
                ("deleted-objects", "read"): "deleted-objects.read",
                **{(kind, "memberships"): f"{kind}.list-groups" for kind in _BELONGING},
                ("groups", "members"): "groups.list-members",
                **_all_by(KINDS, "history", "objects.history"),
                **_all_by(KINDS, "access", "objects.read-access-control"),
                ("users", "password-policy"): "users.read-password-policy",
            },
            includes=frozenset({"memberships", "members", "history", "access", "password-policy"}),
            hidden=frozenset({"dn"}),
            takes=frozenset({"include"}),
            identified_by="objectGUID or distinguished name.",
        ),
        Tool(
            name="describe_schema",
            title="Describe attributes",
            description="Say of attributes what type they have, whether they hold several values and can be written:"
            " the usual ones of a kind, those named, or all with attribute `*`.",
            behaviour=Behaviour.READS,
            serves=_all_by(KINDS, DESCRIBE, "schema.list-attributes"),
            renamed={"names": "attribute"},
            hidden=frozenset({"classes"}),
        ),
        Tool(
            name=PREVIEW,
            title="Preview a change",
            description="Show what a call of a changing tool would change, how risky it is and whether a person would"
            " have to approve it. Changes nothing.",
            behaviour=Behaviour.READS,
            serves={},
        ),
        Tool(
            name="create_object",
            title="Create an object",
            description="Create an object. An account starts disabled unless enabled is true and a password given.",
            behaviour=Behaviour.ADDS,
            serves=_each(KINDS, "create"),
            hidden=frozenset({"add", "remove", "clear"}),
        ),
        Tool(
            name="update_object",
            title="Update an object",
            description="Change attributes and options of an object, all in one step.",
            behaviour=Behaviour.CHANGES,
            serves=_each(KINDS, "update"),
            takes=frozenset({"ifMatch"}),
        ),
        Tool(
            name="move_or_rename_object",
            title="Move or rename an object",
            description="Move an object to another parent, or give it another name: one of both in a call.",
            behaviour=Behaviour.CHANGES,
            serves=_each(KINDS, "move", "rename"),
        ),
        Tool(
            name="change_members",
            title="Change a group's members",
            description="Add members to a group and remove others, in one step.",
            behaviour=Behaviour.CHANGES,
            serves=_each(("groups",), "change-members"),
            identified_by="objectGUID of the group.",
        ),
        Tool(
            name="change_account",
            title="Change an account",
            description="Do one of the actions to an account, or to the accounts in an organization unit.",
            behaviour=Behaviour.CHANGES,
            serves={
                **_each(ACCOUNTS, "enable", "disable", "unlock"),
                ("users", "reset-password"): "users.reset-password",
                ("organization-units", "enable"): "organization-units.enable-accounts",
                ("organization-units", "disable"): "organization-units.disable-accounts",
            },
            hidden=frozenset({"planId"}),
            takes=frozenset({"action"}),
        ),
        Tool(
            name="delete_object",
            title="Delete an object",
            description="Delete an object; with recursive also everything below it.",
            behaviour=Behaviour.CHANGES,
            serves=_each(KINDS, "delete"),
        ),
        Tool(
            name="restore_object",
            title="Restore a deleted object",
            description="Restore an object found with search_directory and kind deleted-objects.",
            behaviour=Behaviour.ADDS,
            serves=_each(("deleted-objects",), "restore"),
        ),
        Tool(
            name=OWN_REQUESTS,
            title="My change requests",
            description="Look at changes that wait or waited for a person: one by id, or a list by status. With cancel"
            " and id: withdraw one that waits.",
            behaviour=Behaviour.WITHDRAWS,
            serves=_each(("change-requests",), "search", "read", "cancel"),
            renamed={"pageSize": "limit"},
            hidden=frozenset({"risk", "operation", "owner", "target"}),
            takes=frozenset({"cancel"}),
            needs=frozenset(),
            identified_by="Of a change request.",
        ),
    )
}

PREVIEWABLE: Final = tuple(tool.name for tool in TOOLS.values() if tool.changes_directory)
"""The tools that have a dry run."""

NOT_SERVED: Final[Mapping[str, str]] = {
    "me.read": "what an agent may do, its list of tools says",
    "operations.search": "the log of what others did; an object's own is in read_object",
    "operations.read": "the log of what others did; an object's own is in read_object",
    "operations.revert": "undoes what others did: a person's, who sees the record",
    "organization-units.read-delegations": "who was given what in the directory is a matter of those who give it",
    "organization-units.plan-accounts": "preview_change tells what a run would change",
    "runs.search": "the accounts themselves tell what became of a run: search_directory with state",
    "runs.read": "the accounts themselves tell what became of a run: search_directory with state",
    "saved-filters.list": "people keep filters for people; an agent writes its own",
    "saved-filters.read": "people keep filters for people; an agent writes its own",
    "saved-filters.create": "people keep filters for people; an agent writes its own",
    "saved-filters.update": "people keep filters for people; an agent writes its own",
    "saved-filters.delete": "people keep filters for people; an agent writes its own",
    "saved-filters.run": "people keep filters for people; an agent writes its own",
    "users.change-password": "needs the present password, which nobody should tell an agent",
}
"""The operations of `/api` that no tool stands for, each with its reason. Those of `/rest` alone are the console's."""


def served() -> frozenset[str]:
    """The names of all operations that a tool stands for."""
    return frozenset(name for tool in TOOLS.values() for name in tool.serves.values())

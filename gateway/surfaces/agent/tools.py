"""The table of tools and the operations that each one serves. It has no rules of its own.

The arguments of a tool follow from the shapes of its operations (`schemas`); the pipeline runs the operations.
"""

import tomllib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pydantic.alias_generators import to_camel

from core.operation import Effect, find_operation
from directory.shapes.kinds import RESOURCES
from gateway.pipeline.schedules import SCHEDULE
from gateway.surfaces.agent.matching import MATCHING

SENTENCES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))
"""What the tools say to agents, by what it is about."""

Way = tuple[str, str]
"""A way of using a tool: a kind of objects (by its plural name), and an action on it."""

KINDS = tuple(RESOURCES)
ACCOUNTS = tuple(name for name, resource in RESOURCES.items() if resource.has_account)
_BELONGING = (*ACCOUNTS, "groups")


class Behaviour(StrEnum):
    """The strongest effect of a tool."""

    READS = "reads"
    ADDS = "adds"
    CHANGES = "changes"
    WITHDRAWS = "withdraws"  # the agent's own change requests; nothing in the directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `serves` names the operation for each way of using it.

    `includes` are actions whose answers are added to another one's. `renamed` gives members of the operations' shapes
    the names that agents see; `hidden` members agents never see. `takes` are the tool's own arguments, `needs` the
    required ones; `named` are lists of ids that may name objects as `id` does; `identified_by` describes its `id`. With
    `few_attributes` only a few attributes are shown unless some are named.
    """

    name: str
    title: str
    description: str
    behaviour: Behaviour
    serves: Mapping[Way, str]
    includes: Set[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    hidden: Set[str] = frozenset()
    takes: Set[str] = frozenset()
    named: Set[str] = frozenset()
    needs: Set[str] = frozenset({"kind", "id", "action", "reason"})
    identified_by: str = "id, DN, sAMAccountName or userPrincipalName."
    few_attributes: bool = False

    @property
    def is_idempotent(self) -> bool:
        """Whether the same call again changes nothing more: not if it makes another object or another password."""
        makes_passwords = any(action == "reset-password" for _, action in self.serves)
        return self.behaviour is not Behaviour.ADDS and not makes_passwords

    @property
    def changes_directory(self) -> bool:
        """Whether it changes the directory, so that it takes a reason and has a dry run."""
        return self.behaviour in (Behaviour.ADDS, Behaviour.CHANGES)

    def has_dry_run(self, ways: Iterable[Way]) -> bool:
        """Whether any of these ways of using it changes the directory."""
        return self.changes_directory and any(
            find_operation(self.serves[way]).effect is not Effect.READ for way in ways
        )

    def kinds(self, *actions: str) -> list[str]:
        """The kinds of objects that it serves, or that one of these actions is for."""
        return list(dict.fromkeys(kind for kind, action in self.serves if not actions or action in actions))

    def actions(self, kind: str) -> list[str]:
        """The actions on a kind of objects."""
        return [action for of, action in self.serves if of == kind]

    def ways_of(self, permissions: frozenset[str]) -> frozenset[Way]:
        """The ways of using it that these permissions allow; a particular object may need more."""
        return frozenset(
            way for way, name in self.serves.items() if find_operation(name).may_be_called_with(permissions)
        )


def _each(kinds: Iterable[str], *actions: str) -> dict[Way, str]:
    """Each of these actions on each of these kinds, by the operation of that name."""
    return {(kind, action): f"{kind}.{action}" for kind in kinds for action in actions}


def _all_by(kinds: Iterable[str], action: str, operation: str) -> dict[Way, str]:
    """One operation that serves an action on several kinds."""
    return dict.fromkeys(((kind, action) for kind in kinds), operation)


PREVIEW = "preview_change"
PLAN = "plan_changes"
DESCRIBE = "describe"
OWN_REQUESTS = "my_change_requests"
CHANGE_REQUESTS = "change-requests"
OWN_CHANGES = "my_changes"
UNDO = "undo"

TIMES = frozenset(map(to_camel, SCHEDULE))
"""The arguments that make a change later or for a while."""

TOOLS = {
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
            hidden={"expand", "kinds", "types"},
            takes={"fields"},
            needs={"kind"},
            few_attributes=True,
        ),
        Tool(
            name="read_object",
            title="Read an object",
            description="Read one object, with what else is asked for in include.",
            behaviour=Behaviour.READS,
            serves={
                **_each(KINDS, "read", "read-by-dn"),
                ("deleted-objects", "read"): "deleted-objects.read",
                **{(kind, "memberships"): f"{kind}.list-groups" for kind in _BELONGING},
                ("groups", "members"): "groups.list-members",
                ("groups", "nested-members"): "groups.list-members",
                ("organization-units", "delegations"): "organization-units.read-delegations",
                **_all_by(KINDS, "history", "objects.history"),
                **_all_by(KINDS, "access", "objects.read-access-control"),
                ("users", "password-policy"): "users.read-password-policy",
            },
            includes={
                "memberships",
                "members",
                "nested-members",
                "delegations",
                "history",
                "access",
                "password-policy",
            },
            renamed={"dn": "id"},
            hidden={"dn"},
            takes={"include", "cursor"},
        ),
        Tool(
            name="describe_schema",
            title="Describe attributes",
            description="Say of attributes what type they have, whether they hold several values and can be written:"
            " the usual ones of a kind, those named, those found by q, or all with attribute `*`.",
            behaviour=Behaviour.READS,
            serves=_all_by(KINDS, DESCRIBE, "schema.list-attributes"),
            renamed={"names": "attribute"},
            hidden={"classes"},
            takes={"cursor"},
        ),
        Tool(
            name="count_objects",
            title="Count objects",
            description="Count objects of one kind, also by the values of an attribute, by unit or by account state.",
            behaviour=Behaviour.READS,
            serves=_all_by(KINDS, "count", "objects.count"),
            hidden={"kind"},
            needs={"kind"},
        ),
        Tool(
            name="explain_sign_in",
            title="Explain a sign-in",
            description="Say what keeps a user from signing in, and what each domain controller knows.",
            behaviour=Behaviour.READS,
            serves={("users", "sign-in"): "users.read-sign-in-report"},
            needs={"id"},
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
            name=PLAN,
            title="Plan and apply changes",
            description="Preview many changes as one; with digest and reason, make them. If one has to wait for a"
            " person, all do.",
            behaviour=Behaviour.CHANGES,
            serves={},
        ),
        Tool(
            name="create_object",
            title="Create an object",
            description="Create an object. An account starts disabled unless enabled is true and a password given or"
            " generated.",
            behaviour=Behaviour.ADDS,
            serves=_each(KINDS, "create"),
            hidden={"add", "remove", "clear"},
        ),
        Tool(
            name="update_object",
            title="Update an object",
            description="Change attributes and options of an object, all in one step.",
            behaviour=Behaviour.CHANGES,
            serves=_each(KINDS, "update"),
            takes={"ifMatch"},
        ),
        Tool(
            name="move_or_rename_object",
            title="Move or rename an object",
            description="Move an object to another parent, or rename it.",
            behaviour=Behaviour.CHANGES,
            serves=_each(KINDS, "move", "rename"),
        ),
        Tool(
            name="change_members",
            title="Change a group's members",
            description="Add members to a group and remove others, in one step.",
            behaviour=Behaviour.CHANGES,
            serves=_each(("groups",), "change-members"),
            named={"add", "remove"},
            takes={*MATCHING, *TIMES},
            identified_by="Of the group: id, DN or sAMAccountName.",
        ),
        Tool(
            name="change_account",
            title="Change an account",
            description="Do one of the actions to an account, or to the accounts in an organization unit. Later:"
            " applyAt. For a while: revertAt, or revertAfter (PT8H).",
            behaviour=Behaviour.CHANGES,
            serves={
                **_each(ACCOUNTS, "enable", "disable", "unlock"),
                ("users", "reset-password"): "users.reset-password",
                ("organization-units", "enable"): "organization-units.enable-accounts",
                ("organization-units", "disable"): "organization-units.disable-accounts",
            },
            hidden={"planId"},
            named={"accounts"},
            takes={"action", *TIMES},
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
            " and id: withdraw one that you asked for. With run: what became of the accounts of a run.",
            behaviour=Behaviour.WITHDRAWS,
            serves=_each((CHANGE_REQUESTS,), "search", "read", "cancel") | {(CHANGE_REQUESTS, "run"): "runs.read"},
            renamed={"pageSize": "limit"},
            hidden={"risk", "operation", "owner", "target"},
            takes={"cancel", "run"},
            needs=set(),
            identified_by="Of a change request.",
        ),
        Tool(
            name=OWN_CHANGES,
            title="My changes",
            description="List what you have changed, newest first. With undo and a reason: take changes back, the"
            " newest first, as far as nobody has changed the same since.",
            behaviour=Behaviour.CHANGES,
            serves=_each(("operations",), "search-own", UNDO),
            renamed={"pageSize": "limit"},
            takes={UNDO},
            needs=set(),
        ),
    )
}

PREVIEWABLE = tuple(tool.name for tool in TOOLS.values() if tool.changes_directory and tool.serves)
"""The tools that have a dry run."""
PLANNABLE = tuple(name for name in PREVIEWABLE if name != OWN_CHANGES)
"""The tools whose changes a plan may have."""
RUN_KIND = "organization-units"
"""What the accounts of a run are in."""

NOT_SERVED = {
    "me.read": "what an agent may do, its list of tools says",
    "operations.search": "the log of what others did; an object's own is in read_object",
    "operations.read": "the log of what others did; an object's own is in read_object",
    "operations.revert": "undoes what others did: a person's, who sees the record; my_changes undoes one's own",
    "change-requests.extend": "to be given longer access than was asked for is for people to ask",
    "change-requests.revert-now": "my_changes undoes one's own",
    "organization-units.plan-accounts": "preview_change tells what a run would change",
    "runs.search": "an agent knows its runs by the answers that began them",
    "saved-filters.list": "people keep filters for people; an agent writes its own",
    "saved-filters.read": "people keep filters for people; an agent writes its own",
    "saved-filters.create": "people keep filters for people; an agent writes its own",
    "saved-filters.update": "people keep filters for people; an agent writes its own",
    "saved-filters.delete": "people keep filters for people; an agent writes its own",
    "saved-filters.run": "people keep filters for people; an agent writes its own",
    **{f"{kind}.read-by": "search_directory finds objects by any attribute" for kind in (*_BELONGING, "objects")},
    **{
        f"membership-rules.{action}": "people set how long memberships last; a refusal says what the rule is"
        for action in ("list", "read", "create", "update", "delete")
    },
    "users.change-password": "needs the present password, which nobody should tell an agent",
}
"""The operations of `/api` that no tool serves, each with its reason. Those only on `/rest` are the console's."""

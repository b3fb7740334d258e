"""What is changed when people join, move or leave, whoever says what: a recipe or a template."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from console.directory.objects.memberships import direct_groups
from console.directory.selection.actions import ACTIONS, Record, step_for
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from console.shared.names import common_name
from directory.shapes.wording.attribute_labels import label_of


def task_of(title: str, steps: Sequence[Step], people: Sequence[Record], *, is_dangerous: bool, then: str) -> Task:
    """The task of these changes; of the people chosen those are left out that are no users."""
    others = [record for record in people if record["kind"] != "user"]
    return Task(
        title=title,
        confirm=_("Make the change"),
        confirm_many=_("Make {} changes"),
        did=_("changes made"),
        steps=list(steps),
        left_out=[(str(record["name"]), _("it is no person")) for record in others],
        is_dangerous=is_dangerous,
        then=then,
    )


def names_of(users: Sequence[Record]) -> str:
    """The first of them by name, and how many more there are."""
    names = ", ".join(str(record["name"]) for record in users[:3])
    return _("{names} and {count} more").format(names=names, count=len(users) - 3) if len(users) > 3 else names


def switch(users: Sequence[Record], action: str) -> Iterator[Step]:
    """Enable or disable the accounts."""
    return (step_for(f"users.{action}", user, {}, says=_(ACTIONS[action].says)) for user in users)


def update(user: Record, document: Mapping[str, Any]) -> Iterator[Step]:
    """Write attributes (`replace` and `clear` of `users.update`), if there are any."""
    told = [f"{label_of(name)} → {common_name(texts[0])}" for name, texts in document.get("replace", {}).items()]
    told += [_("{attribute} → no value").format(attribute=label_of(name)) for name in document.get("clear", ())]
    if told:
        yield step_for("users.update", user, document, says="; ".join(told))


def move(users: Sequence[Record], parent: str, name: str) -> Iterator[Step]:
    """Move the accounts to the container `parent`, whose distinguished name is `name`."""
    says = f"→ {common_name(name)}"
    return (step_for("users.move", user, {"parent": parent}, says=says) for user in users)


def change_groups(
    page: PageContext, users: Sequence[Record], join: Mapping[str, Record], leaves: Callable[[set[str]], set[str]]
) -> Iterator[Step]:
    """One change for each group, whoever of them enters or leaves it.

    `join` are the groups to become members of, by id; `leaves` says which of somebody's present groups to leave.
    """
    groups = dict(join)
    add: dict[str, list[str]] = defaultdict(list)
    remove: dict[str, list[str]] = defaultdict(list)
    for user in users:
        own = {str(group["id"]): group for group in direct_groups(page, user)}
        groups |= own
        for ids, changed in ((join.keys() - own.keys(), add), (leaves(set(own)), remove)):
            for id in ids:
                changed[id].append(str(user["id"]))
    for id in sorted(add.keys() | remove.keys(), key=lambda id: str(groups[id]["name"]).casefold()):
        document = {"add": add.get(id, []), "remove": remove.get(id, [])}
        says = _says_of_members(len(document["add"]), len(document["remove"]))
        yield step_for("groups.change-members", groups[id], document, says=says)


def _says_of_members(added: int, removed: int) -> str:
    if not removed:
        return _("Add {count}").format(count=added)
    if not added:
        return _("Remove {count}").format(count=removed)
    return _("Add {added} and remove {removed}").format(added=added, removed=removed)

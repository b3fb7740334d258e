"""What is done when somebody joins, moves or leaves: a named list of changes, made as one task with one way back.

Which of the changes are made, and where somebody goes, the person says; the next time it is proposed again.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.directory.labels import label_of
from console.directory.objects.memberships import direct_groups
from console.directory.selection.actions import Record, step_for
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from console.shared.names import common_name, parsed
from core.errors import FieldError, GatewayError, InvalidRequest
from core.shapes import parse_guid

_REMEMBERED: Final = "console-recipes"
_COPIED: Final = (
    *("title", "department", "company", "manager", "physicalDeliveryOfficeName"),
    *("streetAddress", "l", "st", "postalCode"),
)
"""What somebody has in common with a colleague who does the same work at the same place."""


@dataclass(frozen=True, slots=True)
class Block:
    """One of the changes of a recipe; `operation` is what it needs. `is_usual` is whether it is proposed at first."""

    name: str
    label: str
    operation: str
    is_usual: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """A named list of changes. With `colleague` it asks for somebody whose groups and place are the model."""

    name: str
    label: str
    meaning: str
    blocks: tuple[Block, ...]
    colleague: bool = False
    is_dangerous: bool = False


_LIKE_COLLEAGUE: Final = (
    Block(
        "copy",
        gettext_noop("Take over the colleague's job title, department, manager, office and address"),
        "users.update",
    ),
    Block("take-groups", gettext_noop("Become a member of the colleague's groups"), "groups.change-members"),
    Block("follow", gettext_noop("Move to where the colleague is"), "users.move"),
)
RECIPES: Final = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "joiner",
            gettext_noop("Joiner"),
            gettext_noop("A new account gets what a colleague has."),
            (*_LIKE_COLLEAGUE, Block("enable", gettext_noop("Enable the account"), "users.enable", is_usual=False)),
            colleague=True,
        ),
        Recipe(
            "mover",
            gettext_noop("Mover"),
            gettext_noop(
                "Somebody changes to another team: they get what a colleague there has, and lose what they had."
            ),
            (
                *_LIKE_COLLEAGUE,
                Block(
                    "leave-others",
                    gettext_noop("Leave the groups that the colleague is not in"),
                    "groups.change-members",
                ),
            ),
            colleague=True,
        ),
        Recipe(
            "leaver",
            gettext_noop("Leaver"),
            gettext_noop("Somebody leaves: nobody signs in with the account any more, and it may do nothing."),
            (
                Block("disable", gettext_noop("Disable the account"), "users.disable"),
                Block("leave", gettext_noop("Leave all groups but the primary one"), "groups.change-members"),
                Block("describe", gettext_noop("Write into the description that they left, and when"), "users.update"),
                Block("clear-manager", gettext_noop("Clear the manager"), "users.update", is_usual=False),
                Block("move", gettext_noop("Move to the place named below"), "users.move", is_usual=False),
            ),
            is_dangerous=True,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a recipe: its blocks, the colleague (UUID or distinguished name), the place."""

    blocks: frozenset[str]
    colleague: str = ""
    place: str = ""


def offered_blocks(page: PageContext, recipe: Recipe) -> list[Block]:
    """The changes that the person may make at all."""
    return [block for block in recipe.blocks if page.may(block.operation)]


def proposed(page: PageContext, recipe: Recipe) -> Choice:
    """What the person chose the last time, or what is usual."""
    known = page.request.session.get(_REMEMBERED, {}).get(recipe.name)
    if known is not None:
        return Choice(frozenset(known["blocks"]), place=known["place"])
    return Choice(frozenset(block.name for block in recipe.blocks if block.is_usual))


def remember(page: PageContext, recipe: Recipe, choice: Choice) -> None:
    """Keep what was chosen for the next time; whom somebody follows is another one then."""
    kept = dict(page.request.session.get(_REMEMBERED, {}))
    kept[recipe.name] = {"blocks": sorted(choice.blocks), "place": choice.place}
    page.request.session[_REMEMBERED] = kept


def plan_recipe(page: PageContext, recipe: Recipe, people: Sequence[Record], choice: Choice, *, then: str) -> Task:
    """The task of a recipe for these people. Raises InvalidRequest naming the field that is wrong."""
    users = [record for record in people if record["kind"] == "user"]
    names = ", ".join(str(record["name"]) for record in users[:3])
    if len(users) > 3:
        names = _("{names} and others").format(names=names)
    return Task(
        title=_("{recipe}: {names}?").format(recipe=_(recipe.label), names=names),
        confirm=_("Make the change"),
        confirm_many=_("Make {} changes"),
        did=_("changes made"),
        steps=list(_steps(page, recipe, users, choice)),
        left_out=[(str(record["name"]), _("it is no person")) for record in people if record["kind"] != "user"],
        is_dangerous=recipe.is_dangerous,
        then=then,
    )


def _steps(page: PageContext, recipe: Recipe, users: Sequence[Record], choice: Choice) -> Iterator[Step]:
    """The changes in the order in which they do least harm if one fails: first the account, last the place."""
    wanted = choice.blocks & {block.name for block in offered_blocks(page, recipe)}
    model = _find_colleague(page, choice.colleague) if recipe.colleague and wanted - {"enable"} else None
    if "disable" in wanted:
        yield from (step_for("users.disable", user, {}, says=_("Enabled → Disabled")) for user in users)
    yield from _updates(users, wanted, model)
    yield from _group_changes(page, users, wanted, model)
    place = _place(choice, wanted, model)
    if place is not None:
        says = f"→ {common_name(place)}"
        yield from (step_for("users.move", user, {"parent": place}, says=says) for user in users)
    if "enable" in wanted:
        yield from (step_for("users.enable", user, {}, says=_("Disabled → Enabled")) for user in users)


def _updates(users: Sequence[Record], wanted: frozenset[str], model: Record | None) -> Iterator[Step]:
    replaced: dict[str, list[str]] = {}
    if "copy" in wanted and model is not None:
        replaced |= {name: model["attributes"][name] for name in _COPIED if model["attributes"][name]}
    if "describe" in wanted:
        replaced["description"] = [_("Left on {day}").format(day=f"{datetime.now(UTC):%Y-%m-%d}")]
    document: dict[str, Any] = {"replace": replaced} if replaced else {}
    if "clear-manager" in wanted:
        document["clear"] = ["manager"]
    if document:
        told = [f"{label_of(name)} → {common_name(values[0])}" for name, values in replaced.items()]
        nothing = _("no value")
        told += [f"{label_of(name)} → {nothing}" for name in document.get("clear", ())]
        yield from (step_for("users.update", user, document, says="; ".join(told)) for user in users)


def _group_changes(
    page: PageContext, users: Sequence[Record], wanted: frozenset[str], model: Record | None
) -> Iterator[Step]:
    """One change for each group, whoever of them enters or leaves it."""
    groups: dict[str, Record] = {}
    add: dict[str, list[str]] = defaultdict(list)
    remove: dict[str, list[str]] = defaultdict(list)
    models = {} if model is None else {str(group["id"]): group for group in direct_groups(page, model)}
    for user in users if wanted & {"leave", "leave-others", "take-groups"} else ():
        own = {str(group["id"]): group for group in direct_groups(page, user)}
        groups |= own
        if wanted & {"leave", "leave-others"}:
            for id in own.keys() - (models.keys() if "leave-others" in wanted else set()):
                remove[id].append(str(user["id"]))
        if "take-groups" in wanted:
            groups |= models
            for id in models.keys() - own.keys():
                add[id].append(str(user["id"]))
    for id in sorted(add.keys() | remove.keys(), key=lambda id: str(groups[id]["name"]).casefold()):
        document = {"add": add.get(id, []), "remove": remove.get(id, [])}
        says = _says_of_members(len(add[id]), len(remove[id]))
        yield step_for("groups.change-members", groups[id], document, says=says)


def _says_of_members(added: int, removed: int) -> str:
    if not removed:
        return _("Add {count}").format(count=added)
    if not added:
        return _("Remove {count}").format(count=removed)
    return _("Add {added} and remove {removed}").format(added=added, removed=removed)


def _place(choice: Choice, wanted: frozenset[str], model: Record | None) -> str | None:
    if "follow" in wanted and model is not None:
        name = parsed(model["distinguishedName"])
        return None if name is None else str(name.parent)
    if "move" in wanted:
        if not choice.place.strip():
            raise InvalidRequest(errors=[FieldError(InvalidRequest.code, "is needed", pointer="#/place")])
        return choice.place.strip()
    return None


def _find_colleague(page: PageContext, text: str) -> Record:
    query = {"attributes": ",".join((*_COPIED, "primaryGroupID"))}
    try:
        if parse_guid(text) is not None:
            found: Record = page.perform("users.read", id=text, query=query)
        else:
            found = page.perform("users.read-by-dn", query={"dn": text, **query})
    except GatewayError as refusal:
        is_named = bool(text.strip())
        detail = _("{name} is no user that you can see").format(name=text) if is_named else "is needed"
        raise InvalidRequest(errors=[FieldError(InvalidRequest.code, detail, pointer="#/colleague")]) from refusal
    return found

"""Recipes for joiners, movers and leavers: lists of changes, made as one task that can be undone at once.

The person chooses which of the changes to make and the target container; the session proposes both again the next
time. Templates (`from_template`) contain both. `people_task` and `steps_for_people` make the tasks of either.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.form import Record
from console.directory.objects.page import direct_groups
from console.directory.selection.actions import ACTIONS, find_named, refused_field, step_for
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from core.text.vocabulary import declare_texts
from directory.shapes.wording.labels import label_of
from directory.shapes.wording.value_words import common_name, parse_name

_SESSION_KEY = "console-recipes"
_COPIED_ATTRIBUTES = (
    *("title", "department", "company", "manager", "physicalDeliveryOfficeName"),
    *("streetAddress", "l", "st", "postalCode"),
)
"""Attributes that colleagues with the same job at the same place have in common."""


class Block(NamedTuple):
    """One change of a recipe; the person needs its `operation`. `is_usual` blocks are ticked at first."""

    name: str
    label: str
    operation: str
    is_usual: bool = True


class Recipe(NamedTuple):
    """A named list of changes. With `colleague` the form asks for a colleague to copy from."""

    name: str
    label: str
    meaning: str
    blocks: tuple[Block, ...]
    colleague: bool = False
    is_dangerous: bool = False


_LIKE_COLLEAGUE = (
    Block(
        "copy",
        "Take over the colleague's job title, department, manager, office and address",
        "users.update",
    ),
    Block("take-groups", "Become a member of the colleague's groups", "groups.change-members"),
    Block("follow", "Move to where the colleague is", "users.move"),
)
RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "joiner",
            "Joiner",
            "A new account gets what a colleague has.",
            (*_LIKE_COLLEAGUE, Block("enable", "Enable the account", "users.enable", is_usual=False)),
            colleague=True,
        ),
        Recipe(
            "mover",
            "Mover",
            "Somebody changes to another team: they get what a colleague there has, and lose what they had.",
            (
                *_LIKE_COLLEAGUE,
                Block(
                    "leave-others",
                    "Leave the groups that the colleague is not in",
                    "groups.change-members",
                ),
            ),
            colleague=True,
        ),
        Recipe(
            "leaver",
            "Leaver",
            "Somebody leaves: nobody signs in with the account any more, and it may do nothing.",
            (
                Block("disable", "Disable the account", "users.disable"),
                Block("leave", "Leave all groups but the primary one", "groups.change-members"),
                Block("describe", "Write into the description that they left, and when", "users.update"),
                Block("clear-manager", "Clear the manager", "users.update", is_usual=False),
                Block("move", "Move to the place named below", "users.move", is_usual=False),
            ),
            is_dangerous=True,
        ),
    )
}

declare_texts(text for recipe in RECIPES.values() for text in (recipe.label, recipe.meaning))
declare_texts(block.label for recipe in RECIPES.values() for block in recipe.blocks)


class Choice(NamedTuple):
    """The choices in a recipe's form: blocks, the colleague (UUID or distinguished name), the target container."""

    blocks: frozenset[str]
    colleague: str = ""
    place: str = ""


def offered_blocks(page: PageContext, recipe: Recipe) -> list[Block]:
    """The blocks whose operation the person may call."""
    return [block for block in recipe.blocks if page.may(block.operation)]


def proposed_choice(page: PageContext, recipe: Recipe) -> Choice:
    """The person's last choice in this session, or the usual blocks."""
    known = page.request.session.get(_SESSION_KEY, {}).get(recipe.name)
    if known is not None:
        return Choice(frozenset(known["blocks"]), place=known["place"])
    return Choice(frozenset(block.name for block in recipe.blocks if block.is_usual))


def remember_choice(page: PageContext, recipe: Recipe, choice: Choice) -> None:
    """Keep the choice for the next time, without the colleague, who will be another one."""
    chosen = {"blocks": sorted(choice.blocks), "place": choice.place}
    page.request.session[_SESSION_KEY] = {**page.request.session.get(_SESSION_KEY, {}), recipe.name: chosen}


def plan_recipe(page: PageContext, recipe: Recipe, people: Sequence[Record], choice: Choice, *, then: str) -> Task:
    """The task of a recipe for these people. Raises InvalidRequest naming the wrong field."""
    users = [record for record in people if record["kind"] == "user"]
    wanted = choice.blocks & {block.name for block in offered_blocks(page, recipe)}
    if choice.place.strip() and "move" not in choice.blocks and any(each.name == "move" for each in recipe.blocks):
        raise refused_field("place", _("is not used: tick the move above, or leave this empty"))
    model: Record | None = None
    if recipe.colleague and wanted - {"enable"}:
        attributes = (*_COPIED_ATTRIBUTES, "primaryGroupID")
        model = find_named(page, "users", choice.colleague, attributes, field="colleague")
    document = _attribute_updates(wanted, model)
    models: dict[str, Record] = {}
    if model is not None and wanted & {"leave-others", "take-groups"}:
        models = {group["id"]: group for group in direct_groups(page, model)}
    is_leaving = bool(wanted & {"leave", "leave-others"})
    stays = set(models) if "leave-others" in wanted else set()
    steps = steps_for_people(
        page,
        users,
        account=next((name for name in ("disable", "enable") if name in wanted), ""),
        document_for=lambda _user: document,
        joins=models if "take-groups" in wanted else {},
        leaves=(lambda own: own - stays) if is_leaving else None,
        place=_target_container(choice, wanted, model),
    )
    title = _("{recipe}: {names}?").format(recipe=_(recipe.label), names=list_names(users))
    return people_task(title, list(steps), people, is_dangerous=recipe.is_dangerous, then=then)


def _attribute_updates(wanted: frozenset[str], model: Record | None) -> dict[str, Any]:
    """The attribute updates, which are the same for everybody."""
    document: dict[str, Any] = {}
    if "copy" in wanted and model is not None:
        document["replace"] = {
            name: model["attributes"][name] for name in _COPIED_ATTRIBUTES if model["attributes"][name]
        }
    if "describe" in wanted:
        document["replace"] = {"description": [_("Left on {day}").format(day=f"{datetime.now(UTC):%Y-%m-%d}")]}
    if "clear-manager" in wanted:
        document["clear"] = ["manager"]
    return document


def _target_container(choice: Choice, wanted: frozenset[str], model: Record | None) -> tuple[str, str] | None:
    """The container to move to and its distinguished name; None if nobody moves. Raises InvalidRequest."""
    place = choice.place.strip()
    if "follow" in wanted and model is not None:
        if (name := parse_name(model["distinguishedName"])) is None:
            return None
        place = str(name.parent)
    elif "move" not in wanted:
        return None
    elif not place:
        raise refused_field("place", "must not be blank")
    return place, place


def people_task(title: str, steps: Sequence[Step], people: Sequence[Record], *, is_dangerous: bool, then: str) -> Task:
    """The task of these changes; it lists chosen objects that are no users as left out."""
    return Task(
        title=title,
        confirm=_("Make the change"),
        confirm_many=_("Make {} changes"),
        did=ngettext("change made", "changes made", len(steps)),
        steps=list(steps),
        left_out=[(record["name"], _("it is not a person")) for record in people if record["kind"] != "user"],
        is_dangerous=is_dangerous,
        then=then,
    )


def list_names(users: Sequence[Record]) -> str:
    """The names of the first three users, and how many more there are."""
    names = ", ".join(record["name"] for record in users[:3])
    return _("{names} and {count} more").format(names=names, count=len(users) - 3) if len(users) > 3 else names


def steps_for_people(
    page: PageContext,
    users: Sequence[Record],
    *,
    account: str,
    document_for: Callable[[Record], Mapping[str, Any]],
    joins: Mapping[str, Record],
    leaves: Callable[[set[str]], set[str]] | None,
    place: tuple[str, str] | None,
) -> Iterator[Step]:
    """The changes, ordered so that a failure does the least harm: disable first, then groups and move, enable last.

    `account` is `disable`, `enable` or anything else for neither. `document_for` returns the attribute updates
    (`replace`, `clear`) of a user. `joins` are the groups to join, by id; `leaves` takes the ids of a user's groups and
    returns those to leave. `place` is the container to move to, as `users.move` takes it, and its distinguished name.
    """

    def switch(action: str) -> Iterator[Step]:
        if account == action:
            yield from (step_for(f"users.{action}", user, {}, says=_(ACTIONS[action].says)) for user in users)

    yield from switch("disable")
    for user in users:
        document = document_for(user)
        told = [f"{label_of(name)} → {common_name(texts[0])}" for name, texts in document.get("replace", {}).items()]
        told += [_("{attribute} → no value").format(attribute=label_of(name)) for name in document.get("clear", ())]
        if told:
            yield step_for("users.update", user, document, says="; ".join(told))
    if joins or leaves is not None:
        yield from _membership_steps(page, users, joins, leaves or (lambda _own: set()))
    if place is not None:
        container, name = place
        for user in users:
            yield step_for("users.move", user, {"parent": container}, says=f"→ {common_name(name)}")
    yield from switch("enable")


def _membership_steps(
    page: PageContext, users: Sequence[Record], joins: Mapping[str, Record], leaves: Callable[[set[str]], set[str]]
) -> Iterator[Step]:
    """One change for each group, with all users who join or leave it."""
    groups = dict(joins)
    add: dict[str, list[Record]] = defaultdict(list)
    remove: dict[str, list[Record]] = defaultdict(list)
    for user in users:
        own = {group["id"]: group for group in direct_groups(page, user)}
        groups |= own
        for ids, changed in ((joins.keys() - own.keys(), add), (leaves(set(own)), remove)):
            for id in ids:
                changed[id].append(user)
    for id in sorted(add.keys() | remove.keys(), key=lambda id: str(groups[id]["name"]).casefold()):
        document = {name: [user["id"] for user in users[id]] for name, users in (("add", add), ("remove", remove))}
        says = [_("joins: {names}").format(names=list_names(add[id]))] if add[id] else []
        says += [_("leaves: {names}").format(names=list_names(remove[id]))] if remove[id] else []
        yield step_for("groups.change-members", groups[id], document, says="; ".join(says))

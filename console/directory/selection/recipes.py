"""What is done when somebody joins, moves or leaves: a named list of changes, made as one task with one way back.

Which of the changes are made, and where somebody goes, the person says; the next time it is proposed again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.directory.objects.memberships import direct_groups
from console.directory.selection.actions import Record, find_user, refused_field
from console.directory.selection.people_changes import change_groups, move, names_of, switch, task_of, update
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from console.shared.names import parsed

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
    title = _("{recipe}: {names}?").format(recipe=_(recipe.label), names=names_of(users))
    steps = list(_steps(page, recipe, users, choice))
    return task_of(title, steps, people, is_dangerous=recipe.is_dangerous, then=then)


def _steps(page: PageContext, recipe: Recipe, users: Sequence[Record], choice: Choice) -> Iterator[Step]:
    """The changes in the order in which they do least harm if one fails: first the account, last the place."""
    wanted = choice.blocks & {block.name for block in offered_blocks(page, recipe)}
    model: Record | None = None
    if recipe.colleague and wanted - {"enable"}:
        model = find_user(page, choice.colleague, (*_COPIED, "primaryGroupID"), field="colleague")
    if "disable" in wanted:
        yield from switch(users, "disable")
    document = _document(wanted, model)
    for user in users:
        yield from update(user, document)
    if wanted & {"leave", "leave-others", "take-groups"}:
        models = {} if model is None else {str(group["id"]): group for group in direct_groups(page, model)}
        stays = set(models) if "leave-others" in wanted else set()
        is_leaving = bool(wanted & {"leave", "leave-others"})
        joined = models if "take-groups" in wanted else {}
        yield from change_groups(page, users, joined, lambda own: own - stays if is_leaving else set())
    if (place := _place(choice, wanted, model)) is not None:
        yield from move(users, place, place)
    if "enable" in wanted:
        yield from switch(users, "enable")


def _document(wanted: frozenset[str], model: Record | None) -> dict[str, Any]:
    """The attributes that are written, the same for everybody."""
    replaced: dict[str, list[str]] = {}
    if "copy" in wanted and model is not None:
        replaced |= {name: model["attributes"][name] for name in _COPIED if model["attributes"][name]}
    if "describe" in wanted:
        replaced["description"] = [_("Left on {day}").format(day=f"{datetime.now(UTC):%Y-%m-%d}")]
    cleared = {"clear": ["manager"]} if "clear-manager" in wanted else {}
    return {**({"replace": replaced} if replaced else {}), **cleared}


def _place(choice: Choice, wanted: frozenset[str], model: Record | None) -> str | None:
    if "follow" in wanted and model is not None:
        name = parsed(model["distinguishedName"])
        return None if name is None else str(name.parent)
    if "move" in wanted:
        if not choice.place.strip():
            raise refused_field("place", "must not be blank")
        return choice.place.strip()
    return None

"""What a template for who joins, moves or leaves does: for people who were chosen, or for somebody new.

What differs each time is filled in; then all of it is one task, previewed and taken back as every other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.fields import SECTIONS, Form
from console.directory.objects.new import account_name_for, domain_of
from console.directory.selection.actions import Record, find_chosen, find_user, step_for
from console.directory.selection.people_changes import change_groups, move, names_of, switch, task_of, update
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from console.shared.names import common_name, parsed
from core.errors import FieldError, InvalidRequest
from core.text.messages import message
from directory.policies.password_generator import generate_password
from directory.shapes.attribute_updates import pointer
from directory.shapes.placeholders import Placeholder, asked_in, filled, only_placeholder

OF_PEOPLE: Final = ("givenName", "sn", "displayName", "sAMAccountName", "description")
"""What is read of people beside what every selection reads of them."""
_NAMES_OBJECT: Final = frozenset(
    item.attribute.lower()
    for sections in SECTIONS.values()
    for section in sections
    for item in section.fields
    if item.form is Form.OBJECT
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A placeholder as a field of a form. `names_object` tells that it is somebody or something of the directory."""

    placeholder: Placeholder
    text: str
    names_object: bool

    @property
    def key(self) -> str:
        return f"fill.{self.placeholder.key}"

    @property
    def pointer(self) -> str:
        return pointer("fill", self.placeholder.key)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The names of somebody who gets a new account, as they were typed, and its place."""

    first: str = ""
    last: str = ""
    name: str = ""
    account_name: str = ""
    parent: str = ""

    @classmethod
    def typed(cls, form: Mapping[str, str]) -> "Newcomer":
        names = ("givenName", "sn", "name", "samAccountName", "parent")
        return cls(*(form.get(name, "").strip() for name in names))

    @property
    def whole_name(self) -> str:
        return self.name or " ".join(part for part in (self.first, self.last) if part)

    @property
    def account(self) -> str:
        return self.account_name or account_name_for(self.first, self.last) or account_name_for("", self.name)

    @property
    def principal_name(self) -> str:
        """The sign-in name that is proposed: the account's name in the domain of its place."""
        domain = domain_of(self.parent)
        return f"{self.account}@{domain}" if self.account and domain else ""

    @property
    def distinguished_name(self) -> str:
        """What the account will be called; the place alone where that is none, which its creation will say."""
        place = parsed(self.parent)
        return self.parent if place is None else str(place.child("CN", self.whole_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A template on its way to a task: whom it is for, and what was filled in. `newcomer` is None for chosen people."""

    template: Mapping[str, Any]
    people: Sequence[Record] = ()
    newcomer: Newcomer | None = None
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> list[tuple[str, str]]:
        attributes: Mapping[str, Sequence[str]] = self.template["attributes"]
        return [(name, value) for name, values in attributes.items() for value in values]

    @property
    def asked(self) -> list[Asked]:
        """What is to be filled in, with what was."""
        of_objects = {only_placeholder(value) for name, value in self.values if name.lower() in _NAMES_OBJECT}
        return [
            Asked(each, self.given.get(each.key, ""), each.key in of_objects)
            for each in asked_in(value for _name, value in self.values)
        ]

    def updates(self, known: Mapping[str, str]) -> dict[str, Any]:
        """What becomes of the attributes: a value for which something is missing is left out."""
        given = {**self.given, **known, "today": f"{datetime.now(UTC):%Y-%m-%d}"}
        replaced: dict[str, list[str]] = {}
        cleared: list[str] = []
        for name, values in self.template["attributes"].items():
            texts = [text for value in values if (text := filled(value, given)) is not None]
            if texts:
                replaced[name] = texts
            elif not values:
                cleared.append(name)
        return {**({"replace": replaced} if replaced else {}), **({"clear": cleared} if cleared else {})}


def plan_use(page: PageContext, use: Use, *, then: str) -> Task:
    """The task of a template. Raises InvalidRequest naming the fields that are missing, or what of it is gone."""
    _require_filled(use)
    template = use.template
    _require_visible(template)
    if use.newcomer is not None:
        steps, who = list(_for_newcomer(use, use.newcomer)), use.newcomer.whole_name
    else:
        users = [record for record in use.people if record["kind"] == "user"]
        if not users:
            raise InvalidRequest(_("None of the chosen people is there any more."))
        steps, who = list(_for_people(page, use, users)), names_of(users)
    title = _("{template}: {people}?").format(template=template["name"], people=who)
    takes_away = template["account"] == "disable" or any(template[name] for name in ("leaves", "leavesOthers"))
    return task_of(title, steps, use.people, is_dangerous=takes_away, then=then)


def people_chosen(page: PageContext, ids: Sequence[str], reference: str) -> list[Record]:
    """Who was chosen in a list, or is named by a field; raises InvalidRequest naming that."""
    if ids:
        return find_chosen(page, ids, *OF_PEOPLE)
    return [find_user(page, reference, ("objectSid", "primaryGroupID", *OF_PEOPLE), field="person")]


def _require_filled(use: Use) -> None:
    missing = [each.pointer for each in use.asked if not each.placeholder.is_optional and not each.text.strip()]
    if use.newcomer is not None:
        missing += ["#/sn"] if not use.newcomer.whole_name else []
        missing += ["#/parent"] if not use.newcomer.parent else []
    if missing:
        errors = [FieldError(InvalidRequest.code, message("must not be blank"), pointer=where) for where in missing]
        raise InvalidRequest(errors=errors)


def _require_visible(template: Mapping[str, Any]) -> None:
    named = [*template["joins"], *template["leaves"], *([template["parent"]] if template["parent"] else [])]
    if gone := sum(each["distinguishedName"] is None for each in named):
        raise InvalidRequest(
            ngettext(
                "{count} object that the template names is gone, or not yours to see.",
                "{count} objects that the template names are gone, or not yours to see.",
                gone,
            ).format(count=gone)
        )


def _for_newcomer(use: Use, newcomer: Newcomer) -> Iterator[Step]:
    """One creation with all attributes in it, then the groups: who could not be made is in none."""
    given = use.updates(
        {
            "first name": newcomer.first,
            "last name": newcomer.last,
            "name": newcomer.whole_name,
            "account name": newcomer.account,
        }
    ).get("replace", {})
    written = {name.lower() for name in given}
    own = {
        "givenName": newcomer.first,
        "sn": newcomer.last,
        "displayName": newcomer.whole_name,
    }
    attributes = {**{name: [text] for name, text in own.items() if text and name.lower() not in written}, **given}
    sign_in = {"samAccountName": newcomer.account, "userPrincipalName": newcomer.principal_name}
    document: dict[str, Any] = {
        "name": newcomer.whole_name,
        "parent": newcomer.parent,
        **{name: text for name, text in sign_in.items() if text and name.lower() not in written},
        "replace": attributes,
    }
    if use.template["account"] == "enable":
        password = generate_password(None, account_name=newcomer.account, display_name=newcomer.whole_name)
        document |= {"enabled": True, "password": password, "account": {"mustChangePassword": True}}
    yield Step(
        operation="users.create",
        document=document,
        name=newcomer.whole_name,
        place=newcomer.distinguished_name,
        says=_("New account {account} in {place}").format(account=newcomer.account, place=common_name(newcomer.parent)),
    )
    says = _("Add {name}").format(name=newcomer.whole_name)
    for group in use.template["joins"]:
        step = step_for("groups.change-members", _as_record(group), {"add": []}, says=says)
        step.member_from = 0
        yield step


def _for_people(page: PageContext, use: Use, users: Sequence[Record]) -> Iterator[Step]:
    """The changes in the order in which they do least harm if one fails: first the account, last the place."""
    template = use.template
    if template["account"] == "disable":
        yield from switch(users, "disable")
    for user in users:
        yield from update(user, use.updates(_known_of(user)))
    joined = {group["id"]: _as_record(group) for group in template["joins"]}
    leaves = {group["id"] for group in template["leaves"]}
    yield from change_groups(
        page, users, joined, lambda own: own - joined.keys() if template["leavesOthers"] else own & leaves
    )
    if (place := template["parent"]) is not None:
        yield from move(users, place["id"], place["distinguishedName"])
    if template["account"] == "enable":
        yield from switch(users, "enable")


def _known_of(user: Record) -> dict[str, str]:
    def first(name: str) -> str:
        return str(next(iter(user["attributes"].get(name, ())), ""))

    return {
        "first name": first("givenName"),
        "last name": first("sn"),
        "name": first("displayName") or str(user["name"]),
        "account name": first("sAMAccountName"),
    }


def _as_record(named: Mapping[str, str]) -> Record:
    return {**named, "name": common_name(named["distinguishedName"])}

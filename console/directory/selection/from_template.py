"""Apply a template for joiners, movers or leavers to chosen people, or create an account from it.

The form asks for the template's placeholders. The result is a task, previewed and undone like all others. A new
account's password is shown once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.actions import show_password
from console.directory.objects.editor import propose_names, resolve_name
from console.directory.objects.form import OBJECT_REFERENCES, Record
from console.directory.objects.page import domain_of
from console.directory.selection.actions import find_chosen, find_named, step_for
from console.directory.selection.pages import start_task
from console.directory.selection.recipes import list_names, people_task, steps_for_people
from console.directory.selection.tasks import Step, Task, find_task, save_task
from console.page_context import PageContext, page_at
from core.errors import FieldError, Forbidden, GatewayError, InvalidRequest, NotFound
from core.text.messages import message
from directory.policies.password_policy import generate_first_password
from directory.shapes.inputs import pointer
from directory.shapes.placeholders import Placeholder, fill_placeholders, placeholders_to_fill, sole_placeholder
from directory.shapes.wording.value_words import common_name, parse_name

_PERSON_ATTRIBUTES = ("givenName", "sn", "displayName", "sAMAccountName", "description")
"""Attributes read of people besides those of every selection."""
_FIELD_PREFIX = "fill."
"""The prefix of placeholders' form fields."""


class PlaceholderField(NamedTuple):
    """A placeholder as a form field. With `names_object` its value is a directory object."""

    placeholder: Placeholder
    text: str
    names_object: bool

    @property
    def key(self) -> str:
        return f"{_FIELD_PREFIX}{self.placeholder.key}"

    @property
    def is_required(self) -> bool:
        return not self.placeholder.is_optional

    @property
    def pointer(self) -> str:
        return pointer("fill", self.placeholder.key)


class Newcomer(NamedTuple):
    """The names of a new person as typed, and the container of their account."""

    first: str
    last: str
    name: str
    account_name: str
    parent: str

    @property
    def names(self) -> tuple[str, str, str]:
        """The full name, sAMAccountName and userPrincipalName; those not typed are proposed."""
        domain = domain_of(self.parent)
        return propose_names(self.first, self.last, self.account_name, name=self.name, domain=domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateUse:
    """A template with the values of its placeholders. `newcomer` is None if it is applied to existing accounts."""

    template: Mapping[str, Any]
    newcomer: Newcomer | None
    values: Mapping[str, str]

    @property
    def fields(self) -> list[PlaceholderField]:
        """The placeholders to fill in, with their present values."""
        values = [(name.lower(), value) for name, values in self.template["attributes"].items() for value in values]
        of_objects = {sole_placeholder(value) for name, value in values if name in OBJECT_REFERENCES}
        return [
            PlaceholderField(each, self.values.get(each.key, ""), each.key in of_objects)
            for each in placeholders_to_fill(value for _name, value in values)
        ]

    def updates(self, known: Mapping[str, str]) -> dict[str, Any]:
        """The attribute updates (`replace`, `clear`). Values with an unfilled optional placeholder are left out."""
        given = {**self.values, **known, "today": f"{datetime.now(UTC):%Y-%m-%d}"}
        attributes: Mapping[str, Sequence[str]] = self.template["attributes"]
        texts = {
            name: [text for value in values if (text := fill_placeholders(value, given)) is not None]
            for name, values in attributes.items()
        }
        replaced = {name: values for name, values in texts.items() if values}
        cleared = [name for name, values in attributes.items() if not values]
        return {**({"replace": replaced} if replaced else {}), **({"clear": cleared} if cleared else {})}


@page_at(
    "templates/<uuid:template_id>/use",
    "change-template-use",
    get="change-templates.read",
    post="objects.search",
)
def use(page: PageContext, template_id: UUID) -> HttpResponseBase:
    """Fill in the placeholders and start the task: for `chosen` people, a `person` named in the form, or a new one."""
    template = page.perform("change-templates.read", id=template_id)
    back, ids = page.return_url("change-templates"), page.submitted.getlist("chosen")
    given = {
        name.removeprefix(_FIELD_PREFIX): text for name, text in page.form.items() if name.startswith(_FIELD_PREFIX)
    }
    planned = TemplateUse(template=template, newcomer=_typed_newcomer(page, template, ids), values=given)
    people: list[Record] = []
    problem: GatewayError | None = None
    if page.is_post:
        try:
            page.require_names()
            if planned.newcomer is None:
                people = _find_people(page, ids)
            # Who has one new colleague often has more: the form follows.
            task = plan_template(page, planned, people, then=page.request.path if planned.newcomer else back)
            _dry_run_creation(page, task)
            return start_task(page, task)
        except GatewayError as refusal:
            problem = refusal
    context = {
        "template": template,
        "fields": planned.fields,
        "newcomer": planned.newcomer,
        "asks_place": planned.newcomer is not None and not template["parent"],
        "chosen": people or (find_chosen(page, ids) if ids else []),
        "ids": ids,
        "person": page.form["person"],
        "back": back,
        "problem": problem,
    }
    return page.render("directory/selection/from_template.html", context)


def _typed_newcomer(page: PageContext, template: Mapping[str, Any], ids: Sequence[str]) -> Newcomer | None:
    """The new person, if it is a joiner's template and nobody was chosen; raises Forbidden."""
    if ids or template["occasion"] != "joiner":
        return None
    if not page.may("users.create"):
        raise Forbidden
    fields = ("givenName", "sn", "name", "samAccountName", "parent")
    typed = Newcomer(*(page.form.get(name, "").strip() for name in fields))
    known = template["parent"] and template["parent"]["distinguishedName"]
    return typed._replace(parent=known or resolve_name(page, typed.parent))


def _find_people(page: PageContext, ids: Sequence[str]) -> list[Record]:
    """The people chosen in a list, or the one named in a field; raises InvalidRequest naming the field."""
    if ids:
        return find_chosen(page, ids, *_PERSON_ATTRIBUTES)
    named, attributes = page.form["person"].strip(), ("objectSid", "primaryGroupID", *_PERSON_ATTRIBUTES)
    return [find_named(page, "users", named, attributes, field="person")]


def plan_template(page: PageContext, use: TemplateUse, people: Sequence[Record], *, then: str) -> Task:
    """The task of a template. Raises InvalidRequest for missing fields, and if objects that it names are gone."""
    _require_values(use)
    template = use.template
    named = [*template["joins"], *template["leaves"], *([template["parent"]] if template["parent"] else [])]
    if gone := sum(each["distinguishedName"] is None for each in named):
        text = ngettext(
            "{count} object that the template names is gone, or not yours to see.",
            "{count} objects that the template names are gone, or not yours to see.",
            gone,
        )
        raise InvalidRequest(text.format(count=gone))
    if use.newcomer is not None:
        steps, who = list(_steps_for_newcomer(use, use.newcomer)), use.newcomer.names[0]
    else:
        users = [record for record in people if record["kind"] == "user"]
        if not users:
            raise InvalidRequest(_("None of the chosen people is there any more."))
        steps, who = list(_steps_for_users(page, use, users)), list_names(users)
    title = _("{template}: {people}?").format(template=template["name"], people=who)
    takes_away = template["account"] == "disable" or any(template[name] for name in ("leaves", "leavesOthers"))
    return people_task(title, steps, people, is_dangerous=takes_away, then=then)


def _require_values(use: TemplateUse) -> None:
    missing = [each.pointer for each in use.fields if each.is_required and not each.text.strip()]
    if use.newcomer is not None:
        missing += ["#/sn"] if not use.newcomer.names[0] else []
        missing += ["#/parent"] if not use.newcomer.parent else []
    if missing:
        errors = [FieldError(InvalidRequest.code, message("must not be blank"), pointer=where) for where in missing]
        raise InvalidRequest(errors=errors)


def _steps_for_newcomer(use: TemplateUse, newcomer: Newcomer) -> Iterator[Step]:
    """Create the account with all attributes, then add it to the groups: a failed creation leaves nothing behind."""
    name, account, principal = newcomer.names
    known = {"first name": newcomer.first, "last name": newcomer.last, "name": name, "account name": account}
    given = use.updates(known).get("replace", {})
    written = {attribute.lower() for attribute in given}

    def unwritten(texts: Mapping[str, str]) -> dict[str, str]:
        return {attribute: text for attribute, text in texts.items() if text and attribute.lower() not in written}

    own = unwritten({"givenName": newcomer.first, "sn": newcomer.last, "displayName": name})
    document: dict[str, Any] = {
        "name": name,
        "parent": newcomer.parent,
        **unwritten({"samAccountName": account, "userPrincipalName": principal}),
        "replace": {**{attribute: [text] for attribute, text in own.items()}, **given},
    }
    if use.template["account"] == "enable":
        password = generate_first_password(None, account_name=account, display_name=name)
        document |= {"enabled": True, "password": password, "account": {"mustChangePassword": True}}
    place = parse_name(newcomer.parent)
    yield Step(
        operation="users.create",
        document=document,
        name=name,
        # A parent that is no distinguished name is shown as typed; the creation refuses it.
        place=newcomer.parent if place is None else str(place.child("CN", name)),
        says=_("New account {account} in {place}").format(account=account, place=common_name(newcomer.parent)),
    )
    says = _("Add {name}").format(name=name)
    for group in use.template["joins"]:
        step = step_for("groups.change-members", _as_record(group), {"add": []}, says=says)
        step.member_from = 0
        yield step


def _steps_for_users(page: PageContext, use: TemplateUse, users: Sequence[Record]) -> Iterator[Step]:
    template = use.template
    joins = {group["id"]: _as_record(group) for group in template["joins"]}
    leaves = {group["id"] for group in template["leaves"]}
    place = template["parent"]

    def document_for(user: Record) -> Mapping[str, Any]:
        first = {name: str(next(iter(user["attributes"].get(name, ())), "")) for name in _PERSON_ATTRIBUTES}
        return use.updates(
            {
                "first name": first["givenName"],
                "last name": first["sn"],
                "name": first["displayName"] or user["name"],
                "account name": first["sAMAccountName"],
            }
        )

    return steps_for_people(
        page,
        users,
        account=template["account"],
        document_for=document_for,
        joins=joins,
        leaves=lambda own: own - joins.keys() if template["leavesOthers"] else own & leaves,
        place=(place["id"], place["distinguishedName"]) if place else None,
    )


def _as_record(named: Mapping[str, str]) -> Record:
    return {**named, "name": common_name(named["distinguishedName"])}


def _dry_run_creation(page: PageContext, task: Task) -> None:
    """Dry-run the creation of the account; raises its refusal with the pointers of the form's fields."""
    making = next((step for step in task.steps if step.operation == "users.create"), None)
    if making is None:
        return
    try:
        page.perform("users.create", query={"dryRun": "true"}, body=making.document)
    except GatewayError as refusal:
        # The form's own fields for attributes of the creation.
        typed = {"#/replace/givenName": "#/givenName", "#/replace/sn": "#/sn"}
        refusal.errors = tuple(
            replace(error, pointer=typed.get(error.pointer or "", error.pointer)) for error in refusal.errors
        )
        raise


@page_at("directory/selection/<uuid:task_id>/password", "selection-password", "POST", post="objects.read")
def password(page: PageContext, task_id: UUID) -> HttpResponseBase:
    """Redirect to the page that shows a new account's password once."""
    task = find_task(page, task_id)
    made = next((step for step in task.steps if step.outcome == "done" and step.document.get("password")), None)
    if made is None or made.object_id is None:
        raise NotFound(_("The password was shown already."))
    answer = show_password(page, {"id": made.object_id, "name": made.name}, made.document.pop("password"))
    save_task(task)
    return answer

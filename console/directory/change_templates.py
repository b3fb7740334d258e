"""Templates for who joins, moves or leaves: kept here, used in `selection.from_template`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.page_context import PageContext, console_page
from console.shared.fields import lines_of
from core.errors import Forbidden, GatewayError
from directory.shapes.attribute_updates import pointer

Record = Mapping[str, Any]

OCCASIONS: Final[Mapping[str, Promise | str]] = {
    "joiner": gettext_lazy("Joiner: somebody new"),
    "mover": gettext_lazy("Mover: somebody changes to another team"),
    "leaver": gettext_lazy("Leaver: somebody leaves"),
}
ACCOUNT: Final[Mapping[str, Promise | str]] = {
    "keep": gettext_lazy("Stays as it is; a new one is disabled"),
    "enable": gettext_lazy("Is enabled; a new one gets a generated password, shown once"),
    "disable": gettext_lazy("Is disabled"),
}
_FREE_LINES: Final = 3
"""Empty fields of a list that can be made longer."""


@dataclass(frozen=True, slots=True)
class Line:
    """One of several fields of a kind, with where a refusal names it."""

    text: str
    pointer: str
    values: str = ""


@console_page()
def change_templates(page: PageContext) -> HttpResponseBase:
    query = {"pageSize": "100", **{name: page.query[name] for name in ("cursor",) if name in page.query}}
    found = page.perform("change-templates.list", query=query)
    return page.render("directory/change_templates.html", {"found": found, "occasions": OCCASIONS})


@console_page("GET", "POST")
def create(page: PageContext) -> HttpResponseBase:
    if not page.may("change-templates.create"):
        raise Forbidden
    if page.request.method != "POST":
        return _form(page, {"occasion": page.query.get("occasion", "joiner")})
    body = _body(page)
    try:
        made = page.perform("change-templates.create", body=body)
    except GatewayError as refusal:
        return _form(page, body, problem=refusal)
    return page.redirect("change-templates", said=_("{name} is saved.").format(name=made["name"]))


@console_page("GET", "POST")
def edit(page: PageContext, template_id: UUID) -> HttpResponseBase:
    """A template to change, for whom may keep them; others see what it does where they use it."""
    if not page.may("change-templates.update"):
        raise Forbidden
    record = page.perform("change-templates.read", id=template_id)
    if page.request.method != "POST":
        return _form(page, _typed(record), record=record)
    body = _body(page)
    try:
        seen = page.form.get("version")
        page.answer("change-templates.update", id=template_id, body=body, if_match=seen)
    except GatewayError as refusal:
        return _form(page, body, record=record, problem=refusal)
    return page.redirect("change-templates", said=_("{name} is saved.").format(name=body["name"]))


@console_page("POST")
def delete(page: PageContext, template_id: UUID) -> HttpResponseBase:
    name = page.perform("change-templates.read", id=template_id)["name"]
    page.perform("change-templates.delete", id=template_id)
    return page.redirect("change-templates", said=_("{name} is deleted.").format(name=name))


def _typed(record: Record) -> dict[str, Any]:
    """What the form says of a template. What cannot be seen of it stays under its id."""
    return {
        **record,
        "parent": record["parent"] and _reference(record["parent"]),
        **{member: [_reference(group) for group in record[member]] for member in ("joins", "leaves")},
    }


def _reference(named: Record) -> str:
    return str(named["distinguishedName"] or named["id"])


def _body(page: PageContext) -> dict[str, Any]:
    form = page.request.POST
    rows = zip(form.getlist("attribute.name"), form.getlist("attribute.values"), strict=False)
    return {
        "name": form.get("name", ""),
        "description": form.get("description", ""),
        "occasion": form.get("occasion", ""),
        "parent": form.get("parent", "").strip() or None,
        **{member: [text.strip() for text in form.getlist(member) if text.strip()] for member in ("joins", "leaves")},
        "leavesOthers": "leavesOthers" in form,
        "attributes": {name.strip(): lines_of(values) for name, values in rows if name.strip()},
        "account": form.get("account", ""),
    }


def _form(
    page: PageContext, typed: Mapping[str, Any], *, record: Record | None = None, problem: GatewayError | None = None
) -> HttpResponseBase:
    context = {
        "typed": typed,
        "record": record,
        "occasions": OCCASIONS,
        "account_changes": ACCOUNT,
        "lists": [
            ("joins", _("Groups to join"), _lines("joins", typed.get("joins", ()))),
            ("leaves", _("Groups to leave"), _lines("leaves", typed.get("leaves", ()))),
        ],
        "attributes": _attributes(typed.get("attributes", {})),
        "problem": problem,
    }
    return page.render("directory/change_template.html", context)


def _lines(member: str, texts: Iterable[str]) -> list[Line]:
    shown = [*texts, *[""] * _FREE_LINES]
    return [Line(text, pointer(member, str(index))) for index, text in enumerate(shown)]


def _attributes(given: Mapping[str, Sequence[str]]) -> list[Line]:
    known = [Line(name, pointer("attributes", name), "\n".join(values)) for name, values in given.items()]
    return [*known, *[Line("", "")] * _FREE_LINES]


urls = [
    path("templates/", change_templates, name="change-templates"),
    path("templates/new", create, name="change-template-new"),
    path("templates/<uuid:template_id>", edit, name="change-template"),
    path("templates/<uuid:template_id>/delete", delete, name="change-template-delete"),
]

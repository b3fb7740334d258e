"""Templates for joiners, movers and leavers: list, edit and delete. `selection.from_template` applies them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.page_context import PageContext, page_at
from console.shared.forms import body_from_form, split_lines
from core.errors import Forbidden
from core.text.vocabulary import texts_by_name
from directory.shapes.inputs import pointer

Record = Mapping[str, Any]

OCCASIONS = texts_by_name(
    {
        "joiner": "Joiner: somebody new",
        "mover": "Mover: somebody changes to another team",
        "leaver": "Leaver: somebody leaves",
    }
)
ACCOUNT_CHANGES = texts_by_name(
    {
        "keep": "Stays as it is; a new one is disabled",
        "enable": "Is enabled; a new one gets a generated password, shown once",
        "disable": "Is disabled",
    }
)
_EMPTY_LINES = 3
"""Empty fields at the end of each list, to add entries."""


@page_at("templates/", "change-templates")
def change_templates(page: PageContext) -> HttpResponseBase:
    query = {"pageSize": "100", **page.query_of("cursor")}
    found = page.perform("change-templates.list", query=query)
    return page.render("directory/change_templates.html", {"found": found})


@page_at("templates/<uuid:template_id>/delete", "change-template-delete", "POST")
def delete(page: PageContext, template_id: UUID) -> HttpResponseBase:
    name = page.perform("change-templates.read", id=template_id)["name"]
    page.perform("change-templates.delete", id=template_id)
    return page.redirect("change-templates", message=_("{name} is deleted.").format(name=name))


def _template_fields(record: Record) -> dict[str, Any]:
    """The form's fields of a template. An object that the person cannot see appears as its id, so saving keeps it."""
    return {
        **record,
        "parent": record["parent"] and _reference(record["parent"]),
        **{member: [_reference(group) for group in record[member]] for member in ("joins", "leaves")},
    }


def _reference(named: Record) -> str:
    return str(named["distinguishedName"] or named["id"])


def _template_body(page: PageContext) -> dict[str, Any]:
    form = page.request.POST
    rows = zip(form.getlist("attribute.name"), form.getlist("attribute.values"), strict=False)
    attributes = {name.strip(): split_lines(values) for name, values in rows if name.strip()}
    return {**body_from_form(form, "change-templates.create"), "attributes": attributes}


def _template_form(page: PageContext, template_id: UUID | None = None) -> HttpResponseBase:
    """The form of a template. Raises Forbidden for people who may not edit templates: they see it when they use it."""
    if not page.may("change-templates.update" if template_id else "change-templates.create"):
        raise Forbidden
    record = page.perform("change-templates.read", id=template_id) if template_id else None
    new = {"occasion": page.query.get("occasion", "joiner")}
    typed: Record = _template_body(page) if page.problem else _template_fields(record) if record else new
    empty = [""] * _EMPTY_LINES
    known = [(name, "\n".join(values)) for name, values in typed.get("attributes", {}).items()]
    context = {
        "typed": typed,
        "record": record,
        "occasions": OCCASIONS,
        "account_changes": ACCOUNT_CHANGES,
        "lists": [
            (member, title, "\n".join(typed.get(member, ())), pointer(member))
            for member, title in (("joins", _("Groups to join")), ("leaves", _("Groups to leave")))
        ],
        "attributes": [*known, *((name, "") for name in empty)],
    }
    return page.render("directory/change_template.html", context)


@page_at("templates/new", "change-template-new", "GET", "POST", form=_template_form)
@page_at("templates/<uuid:template_id>", "change-template", "GET", "POST", form=_template_form)
def save(page: PageContext, template_id: UUID | None = None) -> HttpResponseBase:
    body = _template_body(page)
    if template_id is None:
        page.perform("change-templates.create", body=body)
    else:
        page.perform("change-templates.update", id=template_id, body=body, if_match=page.form["version"])
    return page.redirect("change-templates", message=_("{name} is saved.").format(name=body["name"]))

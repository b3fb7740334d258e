"""The form of an object: filled in, previewed, saved if nobody else has changed the object since it was opened."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _

from console.directory.objects.changes import Change, Question, ask, preview
from console.directory.objects.form import Draft, ExtraAttribute
from console.directory.objects.page import SCOPES, Record, find, frame_of, require, resource_of
from console.page_context import PageContext, console_page
from core.errors import GatewayError
from directory.errors import VersionMismatch
from directory.shapes.kinds import ACCOUNT_KINDS, Kind, permission_for

_NAMES_SUGGESTED: Final = 20
_OBJECTS_SUGGESTED: Final = "10"


@console_page("GET", "POST")
def edit(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record = find(page, object_id)
    require(page, permission_for("update", record["kind"]))
    if page.request.method == "GET":
        return _form(page, record, Draft.of(record))
    draft = Draft.typed(record["kind"], page.request.POST)
    if page.form.get("step") in ("form", "more"):
        return _form(page, record, draft)
    try:
        change = Change(_operation(record), object_id, body=draft.body(), if_match=draft.version)
        return ask(page, change, _question(record), **_way_back(page, record, draft))
    except VersionMismatch as refusal:
        return _ask_again(page, object_id, draft, refusal)
    except GatewayError as refusal:
        return _form(page, record, draft, refusal)


def _operation(record: Record) -> str:
    return f"{resource_of(record)}.update"


def _ask_again(page: PageContext, object_id: UUID, draft: Draft, refusal: VersionMismatch) -> HttpResponse:
    """The preview on what somebody else has made of the object meanwhile, with what that is; nothing is saved."""
    record = find(page, object_id)
    rebased = draft.rebased(record)
    change = Change(_operation(record), object_id, body=rebased.body())
    return preview(
        page,
        change,
        _question(record),
        **_way_back(page, record, rebased),
        problem=refusal,
        meanwhile=draft.changed_meanwhile(record),
        is_stale=True,
    )


def _question(record: Record) -> Question:
    return Question(
        title=_("Save the changes of {name}?").format(name=record["name"]),
        confirm=_("Save"),
        about=record,
        message=_("The changes of {name} are saved.").format(name=record["name"]),
    )


def _way_back(page: PageContext, record: Record, draft: Draft) -> Mapping[str, Any]:
    """How the preview of a draft leads back to its form."""
    return {"form": lambda refusal: _form(page, record, draft, refusal), "kept": draft.as_fields()}


def _form(page: PageContext, record: Record, draft: Draft, problem: GatewayError | None = None) -> HttpResponse:
    context = {**frame_of(page, record), **form_context(page, draft), "problem": problem}
    return page.render("directory/objects/edit.html", context)


def form_context(page: PageContext, draft: Draft) -> dict[str, Any]:
    """What the fields of a draft need, in the forms of objects that are there and of new ones."""
    lines = list(draft.others)
    if not lines or page.form.get("step") == "more":
        lines.append(ExtraAttribute())
    return {
        "draft": draft,
        "others": lines,
        "is_account": draft.kind in ACCOUNT_KINDS,
        "is_group": draft.kind == Kind.GROUP,
        "scopes": SCOPES,
    }


@console_page()
def attribute_names(page: PageContext) -> HttpResponseBase:
    """Attributes that may be written and begin with what is typed, for a field of a form."""
    typed = page.query.get("other.name", "").lower()
    found = page.perform("schema.list-attributes")["items"] if typed else []
    names = [item["name"] for item in found if item["writable"] and item["name"].lower().startswith(typed)]
    return page.render(
        "directory/objects/_suggestions.html", {"options": [(name, "") for name in names[:_NAMES_SUGGESTED]]}
    )


@console_page(get="objects.search")
def suggestions(page: PageContext) -> HttpResponseBase:
    """Objects (or users or groups, by `kind`) whose names begin with what is typed into the field that is named."""
    typed = page.query.get(page.query.get("field", ""), "")
    query = {"q": typed, "pageSize": _OBJECTS_SUGGESTED, "sort": "name", "attributes": "mail"}
    kind = page.query.get("kind")
    search = f"{kind}.search" if kind in ("users", "groups") else "objects.search"
    found = page.perform(search, query=query)["items"] if typed and "=" not in typed else []
    options = [(item["distinguishedName"], item["name"]) for item in found]
    return page.render("directory/objects/_suggestions.html", {"options": options})


urls = [
    path("directory/objects/attribute-names", attribute_names, name="object-attribute-names"),
    path("directory/objects/suggestions", suggestions, name="object-suggestions"),
    path("directory/objects/<uuid:object_id>/edit", edit, name="object-edit"),
]

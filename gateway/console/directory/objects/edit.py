"""The form of an object: filled in, previewed, saved if nobody else has changed the object since it was opened."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path, reverse

from directory.errors import VersionMismatch
from directory.shapes.kinds import ACCOUNT_KINDS, Kind, permission_for
from gateway.console.directory.objects.changes import Change, Question, ask, preview
from gateway.console.directory.objects.form import Draft, ExtraAttribute
from gateway.console.directory.objects.page import SCOPES, Record, find, frame_of, require, resource_of
from gateway.console.page_context import Visit, page
from gateway.core.errors import GatewayError

_NAMES_SUGGESTED: Final = 20
_OBJECTS_SUGGESTED: Final = "10"


@page("GET", "POST")
def edit(visit: Visit, object_id: UUID) -> HttpResponseBase:
    record = find(visit, object_id)
    require(visit, permission_for("update", record["kind"]))
    if visit.request.method == "GET":
        return _form(visit, record, Draft.of(record))
    draft = Draft.typed(record["kind"], visit.request.POST)
    if visit.form.get("step") in ("form", "more"):
        return _form(visit, record, draft)
    try:
        change = Change(
            operation=f"{resource_of(record)}.update",
            arguments={"id": object_id},
            body=draft.body(),
            if_match=draft.version,
        )
        return ask(visit, change, _question(record), **_way_back(visit, record, draft))
    except VersionMismatch as refusal:
        return _ask_again(visit, object_id, draft, refusal)
    except GatewayError as refusal:
        return _form(visit, record, draft, refusal)


def _ask_again(visit: Visit, object_id: UUID, draft: Draft, refusal: VersionMismatch) -> HttpResponse:
    """The preview on what somebody else has made of the object meanwhile, with what that is; nothing is saved."""
    record = find(visit, object_id)
    rebased = draft.rebased(record)
    change = Change(operation=f"{resource_of(record)}.update", arguments={"id": object_id}, body=rebased.body())
    return preview(
        visit,
        change,
        _question(record),
        **_way_back(visit, record, rebased),
        problem=refusal,
        meanwhile=draft.changed_meanwhile(record),
        is_stale=True,
    )


def _question(record: Record) -> Question:
    return Question(
        title=f"Save the changes of {record['name']}?",
        confirm="Save",
        about=record,
        then=reverse("console:object", kwargs={"object_id": record["id"]}),
        message=f"The changes of {record['name']} are saved.",
    )


def _way_back(visit: Visit, record: Record, draft: Draft) -> Mapping[str, Any]:
    """How the preview of a draft leads back to its form."""
    return {"form": lambda refusal: _form(visit, record, draft, refusal), "kept": draft.as_fields()}


def _form(visit: Visit, record: Record, draft: Draft, problem: GatewayError | None = None) -> HttpResponse:
    context = {**frame_of(visit, record), **form_context(visit, draft), "problem": problem}
    return visit.render("directory/objects/edit.html", context, status=problem.status if problem else 200)


def form_context(visit: Visit, draft: Draft) -> dict[str, Any]:
    """What the fields of a draft need, in the forms of objects that are there and of new ones."""
    lines = list(draft.others)
    if not lines or visit.form.get("step") == "more":
        lines.append(ExtraAttribute())
    return {
        "draft": draft,
        "others": lines,
        "is_account": draft.kind in ACCOUNT_KINDS,
        "is_group": draft.kind == Kind.GROUP,
        "scopes": SCOPES,
    }


@page()
def attribute_names(visit: Visit) -> HttpResponseBase:
    """Attributes that may be written and begin with what is typed, for a field of a form."""
    typed = visit.query.get("other.name", "").lower()
    found = visit.perform("schema.list-attributes")["items"] if typed else []
    names = [item["name"] for item in found if item["writable"] and item["name"].lower().startswith(typed)]
    return visit.render(
        "directory/objects/_suggestions.html", {"options": [(name, "") for name in names[:_NAMES_SUGGESTED]]}
    )


@page(get="objects.search")
def suggestions(visit: Visit) -> HttpResponseBase:
    """Objects (or users or groups, by `kind`) whose names begin with what is typed into the field that is named."""
    typed = visit.query.get(visit.query.get("field", ""), "")
    query = {"q": typed, "pageSize": _OBJECTS_SUGGESTED, "sort": "name", "attributes": "mail"}
    kind = visit.query.get("kind")
    search = f"{kind}.search" if kind in ("users", "groups") else "objects.search"
    found = visit.perform(search, query=query)["items"] if typed and "=" not in typed else []
    options = [(item["distinguishedName"], item["name"]) for item in found]
    return visit.render("directory/objects/_suggestions.html", {"options": options})


urls = [
    path("directory/objects/attribute-names", attribute_names, name="object-attribute-names"),
    path("directory/objects/suggestions", suggestions, name="object-suggestions"),
    path("directory/objects/<uuid:object_id>/edit", edit, name="object-edit"),
]

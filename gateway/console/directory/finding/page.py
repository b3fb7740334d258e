"""The page of the one search. An identifier that names one object leads straight to it."""

from typing import Any

from django.http import HttpResponseBase
from django.urls import path

from gateway.console.directory.finding.objects import COLUMNS, find_objects, look_through, wants_more
from gateway.console.directory.finding.things import find_things
from gateway.console.directory.finding.typed import Typed
from gateway.console.page_context import Visit, page

_LONGEST = 256


@page(get="objects.search")
def find(visit: Visit) -> HttpResponseBase:
    """What is found by indexes comes with the page; what they do not lead to follows it, where little was found."""
    text = visit.query.get("q", "").replace("\0", "")[:_LONGEST]
    typed = Typed.of(text)
    if not typed.text:
        return visit.render("directory/find.html", {"typed": typed, "sought": ""})
    found = find_objects(visit, typed)
    is_part = visit.is_partial and visit.request.headers.get("HX-Target") == "looked-through"
    context: dict[str, Any] = {"typed": typed, "sought": typed.text, "found": found, "columns": COLUMNS}
    if is_part or "all" in visit.query:
        context["more"] = look_through(visit, typed, found)
    if is_part:
        return visit.render("directory/_find_looked_through.html", context)
    things, said = find_things(visit, typed, found)
    if typed.names_one and not things and (only := found.only) is not None:
        return visit.redirect("object", object_id=only["id"])
    return visit.render(
        "directory/find.html",
        {**context, "things": things, "said": [*found.said, *said], "wants_more": wants_more(found, typed)},
    )


urls = [path("find", find, name="find")]

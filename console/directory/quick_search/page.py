"""The page of the one search. An identifier, which an index finds at once, leads straight to its object."""

from typing import Any

from django.http import HttpResponseBase
from django.urls import path

from console.directory.quick_search.gateway_records import find_gateway_records
from console.directory.quick_search.objects import COLUMNS, find_objects, look_through, wants_more
from console.directory.quick_search.query_parser import Typed
from console.page_context import PageContext, console_page

_LONGEST = 256


@console_page(get="objects.search")
def find(page: PageContext) -> HttpResponseBase:
    """The page, which comes at once, or what is found, which takes a large directory longer than a page may take."""
    text = page.query.get("q", "").replace("\0", "")[:_LONGEST]
    typed = Typed.of(text)
    part = page.request.headers.get("HX-Target") if page.is_partial else None
    context: dict[str, Any] = {"typed": typed, "sought": typed.text, "columns": COLUMNS}
    if part == "looked-through":
        known = page.query.get("but", "").split(",")
        more = look_through(page, typed, known)
        return page.render("directory/_find_looked_through.html", {**context, "more": more, "known": any(known)})
    is_now = part == "found" or not page.query.keys().isdisjoint({"now", "all"})
    if not typed.text or not (is_now or typed.names_one):
        return page.render("directory/find.html", context)
    found = find_objects(page, typed)
    gateway_records, said = find_gateway_records(page, typed, found)
    if typed.names_one and not gateway_records and (only := found.only) is not None:
        return page.redirect("object", object_id=only["id"])
    shown = {
        **context,
        "found": found,
        "gateway_records": gateway_records,
        "said": [*found.said, *said],
        "known": bool(found.count or gateway_records),
        "wants_more": wants_more(found, typed),
        "more": look_through(page, typed, found.ids) if "all" in page.query else None,
    }
    return page.render("directory/_find_found.html" if part else "directory/find.html", shown)


urls = [path("find", find, name="find")]

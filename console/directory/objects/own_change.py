"""A change that the domain controller has not answered in time: followed until it is known how it ended."""

from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path

from audit.log import NOT_APPLIED
from audit.models import OPEN_OUTCOMES, Reversible
from console.page_context import PageContext, console_page
from console.shared.durations import seconds_since
from directory.shapes.kinds import Kind

_MAKES_PASSWORDS = frozenset({"users.create", "users.reset-password"})


@console_page(get="operations.read-own")
def own_change(page: PageContext, record_id: UUID) -> HttpResponseBase:
    """Whether it was made. While nobody knows, the page asks for itself, and is left as it is."""
    change = page.perform("operations.read-own", id=record_id)
    is_open = change["outcome"] in OPEN_OUTCOMES
    if is_open and page.is_partial:
        return HttpResponse(status=204)
    target, action = change["target"] or {}, change["operation"].rpartition(".")[2]
    context = {
        "change": change,
        "is_open": is_open,
        "waited": seconds_since(change["at"]),
        "was_not_made": change["code"] == NOT_APPLIED,
        "is_there": bool(target.get("id")) and target["kind"] in list(Kind) and action != "delete",
        "may_have_password": change["operation"] in _MAKES_PASSWORDS,
        "may_undo": change["reversible"] != Reversible.NONE and page.may("operations.revert"),
        "may_see_log": page.may("operations.read"),
    }
    return page.render("directory/own_change.html", context)


urls = [path("directory/changes/<uuid:record_id>", own_change, name="own-change")]

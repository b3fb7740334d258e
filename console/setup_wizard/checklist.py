"""What a new gateway still lacks, found out anew each time: nothing is ticked off by having been looked at."""

from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext as _

from approvals.review.conflict_of_interest import find_people_who_decide
from console.page_context import PageContext


@dataclass(frozen=True, slots=True)
class Item:
    """One step of the first day. `view` is its page; `says` what is there, or why it is wanted."""

    name: str
    title: str
    view: str
    is_done: bool
    says: str


def checklist(page: PageContext) -> list[Item]:
    """The steps in their order, for a superuser: everybody else could not take them."""
    base_url = settings.CONFIGURATION.Approvals.BaseUrl
    directories = page.perform("directories.list", query={"pageSize": "1"})["items"]
    approvers = find_people_who_decide(besides=page.call.person.id)
    keys = page.perform("api-keys.search", query={"pageSize": "1", "state": "active"})["items"]
    return [
        Item(
            "address",
            _("Address"),
            "first-day-address",
            bool(base_url),
            base_url or _("E-mails can link to what waits only if the gateway knows its own address."),
        ),
        Item(
            "directory",
            _("Directory"),
            "first-day-directory",
            bool(directories),
            directories[0]["name"] if directories else _("The domain that the gateway is to manage, tested first."),
        ),
        Item(
            "approver",
            _("Approver"),
            "first-day-approver",
            bool(approvers),
            ", ".join(approvers) or _("Nobody decides on their own changes: somebody besides you has to."),
        ),
        Item(
            "key",
            _("First key"),
            "first-day-key",
            bool(keys),
            keys[0]["name"]
            if keys
            else _("What the first integration signs in with, with a role that gives it little."),
        ),
    ]


def remaining(page: PageContext) -> list[Item]:
    """The checklist for Home, as long as something is left; nothing for whoever is no superuser."""
    if not page.is_superuser:
        return []
    items = checklist(page)
    return [] if all(item.is_done for item in items) else items

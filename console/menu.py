"""The menu of the console: its parts in the order of a day's work, and what each asks for."""

from dataclasses import dataclass

from django.utils.translation import gettext_noop

from core.operation import SIGNED_IN, find_operation


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the console. It is shown to whoever is admitted to one of its `operations`; without any, to all.

    `label` and `group` are in English, and translated where they are shown. `view` is the name of its first page;
    `place` what the addresses of all its pages begin with. Entries of a `group` stand next to each other.
    `staff_only` is what Django admin asks for besides its own permissions.
    """

    label: str
    view: str
    place: str
    operations: tuple[str, ...] = ()
    group: str = ""
    staff_only: bool = False


MENU = (
    Entry(gettext_noop("Home"), "console:home", "/console/"),
    Entry(
        gettext_noop("Approvals"),
        "console:changes",
        "/console/changes/",
        ("change-requests.approve", "change-requests.search"),
    ),
    Entry(
        gettext_noop("Browse and search"),
        "console:tree",
        "/console/directory/",
        ("objects.search",),
        gettext_noop("Directory"),
    ),
    Entry(
        gettext_noop("Saved filters"),
        "console:saved-filters",
        "/console/filters/",
        ("saved-filters.list",),
        gettext_noop("Directory"),
    ),
    Entry(
        gettext_noop("Templates"),
        "console:change-templates",
        "/console/templates/",
        ("change-templates.list",),
        gettext_noop("Directory"),
    ),
    Entry(
        gettext_noop("Account states"),
        "console:account-states",
        "/console/accounts/",
        ("accounts.search",),
        gettext_noop("Directory"),
    ),
    Entry(
        gettext_noop("Service accounts"),
        "console:service-accounts",
        "/console/service-accounts/",
        ("service-accounts.search",),
        gettext_noop("Directory"),
    ),
    Entry(
        gettext_noop("Deleted objects"),
        "console:deleted-objects",
        "/console/deleted/",
        ("deleted-objects.search",),
        gettext_noop("Directory"),
    ),
    Entry(
        gettext_noop("Runs"),
        "console:runs",
        "/console/runs/",
        ("organization-units.plan-accounts",),
        gettext_noop("Directory"),
    ),
    Entry(gettext_noop("API keys"), "console:keys", "/console/keys/", ("api-keys.search",), gettext_noop("Access")),
    Entry(
        gettext_noop("Agents"),
        "console:agents",
        "/console/agents/",
        ("agents.search", "agent-clients.search"),
        gettext_noop("Access"),
    ),
    Entry(gettext_noop("Roles"), "console:roles", "/console/roles/", ("roles.search",), gettext_noop("Access")),
    Entry(gettext_noop("People"), "console:people", "/console/people/", ("people.search",), gettext_noop("Access")),
    Entry(
        gettext_noop("Connections"),
        "console:connections",
        "/console/connections/",
        ("directories.list",),
        gettext_noop("Access"),
    ),
    Entry(
        gettext_noop("Operations log"), "console:log", "/console/log/", ("operations.search",), gettext_noop("Record")
    ),
    Entry(gettext_noop("Back office"), "admin:index", "/admin/", group=gettext_noop("Record"), staff_only=True),
)


def entries_for(permissions: frozenset[str], *, is_staff: bool) -> list[Entry]:
    """The parts of the console that somebody with these permissions may see."""
    admitted = permissions | {SIGNED_IN}
    return [
        entry
        for entry in MENU
        if (is_staff or not entry.staff_only)
        and (not entry.operations or any(find_operation(name).permission & admitted for name in entry.operations))
    ]

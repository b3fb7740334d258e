"""The menu of the console: its parts in the order of a day's work, and what each asks for."""

from dataclasses import dataclass

from gateway.core.operation import SIGNED_IN, find_operation


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the console. It is shown to whoever is admitted to one of its `operations`; without any, to all.

    `view` is the name of its first page; `place` what the addresses of all its pages begin with. Entries of a `group`
    stand next to each other. `staff_only` is what Django admin asks for besides its own permissions.
    """

    label: str
    view: str
    place: str
    operations: tuple[str, ...] = ()
    group: str = ""
    staff_only: bool = False


MENU = (
    Entry("Home", "console:home", "/console/"),
    Entry("Approvals", "console:changes", "/console/changes/", ("change-requests.approve", "change-requests.search")),
    Entry("Browse and search", "console:tree", "/console/directory/", ("objects.search",), "Directory"),
    Entry("Saved filters", "console:saved-filters", "/console/filters/", ("saved-filters.list",), "Directory"),
    Entry("Templates", "console:change-templates", "/console/templates/", ("change-templates.list",), "Directory"),
    Entry("Account states", "console:account-states", "/console/accounts/", ("accounts.search",), "Directory"),
    Entry(
        "Service accounts",
        "console:service-accounts",
        "/console/service-accounts/",
        ("service-accounts.search",),
        "Directory",
    ),
    Entry("Deleted objects", "console:deleted-objects", "/console/deleted/", ("deleted-objects.search",), "Directory"),
    Entry("Runs", "console:runs", "/console/runs/", ("organization-units.plan-accounts",), "Directory"),
    Entry("API keys", "console:keys", "/console/keys/", ("api-keys.search",), "Access"),
    Entry("Agents", "console:agents", "/console/agents/", ("agents.search", "agent-clients.search"), "Access"),
    Entry("Roles", "console:roles", "/console/roles/", ("roles.search",), "Access"),
    Entry("People", "console:people", "/console/people/", ("people.search",), "Access"),
    Entry("Connections", "console:connections", "/console/connections/", ("directories.list",), "Access"),
    Entry("Operations log", "console:log", "/console/log/", ("operations.search",), "Record"),
    Entry("Back office", "admin:index", "/admin/", group="Record", staff_only=True),
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

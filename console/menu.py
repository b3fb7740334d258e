"""The menu of the console: its parts in the order of a day's work, and what each asks for."""

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext_noop

from core.operation import SIGNED_IN, find_operation


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the console. It is shown to whoever is admitted to one of its `operations`; without any, to all.

    `label` and `group` are in English, and translated where they are shown. `view` is the name of its first page.
    Entries of a `group` stand next to each other. `staff_only` is what Django admin asks for besides its own
    permissions.
    """

    label: str
    view: str
    operations: tuple[str, ...] = ()
    group: str = ""
    staff_only: bool = False

    @property
    def place(self) -> str:
        """What the addresses of all its pages begin with."""
        return reverse(self.view)


_DIRECTORY, _ACCESS, _RECORD = gettext_noop("Directory"), gettext_noop("Access"), gettext_noop("Record")
MENU = (
    Entry(gettext_noop("Home"), "console:home"),
    Entry(gettext_noop("Approvals"), "console:changes", ("change-requests.approve", "change-requests.search")),
    Entry(gettext_noop("Browse and search"), "console:tree", ("objects.search",), _DIRECTORY),
    Entry(gettext_noop("Saved filters"), "console:saved-filters", ("saved-filters.list",), _DIRECTORY),
    Entry(gettext_noop("Templates"), "console:change-templates", ("change-templates.list",), _DIRECTORY),
    Entry(gettext_noop("Account states"), "console:account-states", ("accounts.search",), _DIRECTORY),
    Entry(gettext_noop("Service accounts"), "console:service-accounts", ("service-accounts.search",), _DIRECTORY),
    Entry(gettext_noop("Deleted objects"), "console:deleted-objects", ("deleted-objects.search",), _DIRECTORY),
    Entry(gettext_noop("Runs"), "console:runs", ("organization-units.plan-accounts",), _DIRECTORY),
    Entry(gettext_noop("API keys"), "console:keys", ("api-keys.search",), _ACCESS),
    Entry(gettext_noop("Agents"), "console:agents", ("agents.search", "agent-clients.search"), _ACCESS),
    Entry(gettext_noop("Roles"), "console:roles", ("roles.search",), _ACCESS),
    Entry(gettext_noop("People"), "console:people", ("people.search",), _ACCESS),
    Entry(gettext_noop("Connections"), "console:connections", ("directories.list",), _ACCESS),
    Entry(gettext_noop("Operations log"), "console:log", ("operations.search",), _RECORD),
    Entry(gettext_noop("Back office"), "admin:index", group=_RECORD, staff_only=True),
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

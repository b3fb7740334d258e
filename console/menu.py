"""The menu of the console, in the order of a day's work, with the operations that admit people to each entry."""

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext_noop

from core.operation import find_operation


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An entry of the menu, shown to people who may call one of its `operations`; without operations, to everybody.

    `label` and `group` are in English; templates translate them. `view` names its first page. Entries of a `group` are
    adjacent. `staff_only` entries are for people with `is_staff`, which Django admin requires.
    """

    label: str
    view: str
    operations: tuple[str, ...] = ()
    group: str = ""
    staff_only: bool = False

    @property
    def path_prefix(self) -> str:
        """The beginning of the paths of all its pages."""
        return reverse(self.view)


_DIRECTORY, _ACCESS, _RECORD = gettext_noop("Directory"), gettext_noop("Access"), gettext_noop("Record")
MENU = (
    MenuEntry(gettext_noop("Home"), "console:home"),
    MenuEntry(gettext_noop("Approvals"), "console:changes", ("change-requests.approve", "change-requests.search")),
    MenuEntry(gettext_noop("Browse and search"), "console:tree", ("objects.search",), _DIRECTORY),
    MenuEntry(gettext_noop("Saved filters"), "console:saved-filters", ("saved-filters.list",), _DIRECTORY),
    MenuEntry(gettext_noop("Templates"), "console:change-templates", ("change-templates.list",), _DIRECTORY),
    MenuEntry(gettext_noop("Account states"), "console:account-states", ("accounts.search",), _DIRECTORY),
    MenuEntry(gettext_noop("Service accounts"), "console:service-accounts", ("service-accounts.search",), _DIRECTORY),
    MenuEntry(gettext_noop("Deleted objects"), "console:deleted-objects", ("deleted-objects.search",), _DIRECTORY),
    MenuEntry(gettext_noop("Runs"), "console:runs", ("organization-units.plan-accounts",), _DIRECTORY),
    MenuEntry(gettext_noop("API keys"), "console:keys", ("api-keys.search",), _ACCESS),
    MenuEntry(gettext_noop("Agents"), "console:agents", ("agents.search", "agent-clients.search"), _ACCESS),
    MenuEntry(gettext_noop("Roles"), "console:roles", ("roles.search",), _ACCESS),
    MenuEntry(gettext_noop("People"), "console:people", ("people.search",), _ACCESS),
    MenuEntry(gettext_noop("Connections"), "console:connections", ("directories.list",), _ACCESS),
    MenuEntry(gettext_noop("Operations log"), "console:log", ("operations.search",), _RECORD),
    MenuEntry(gettext_noop("Back office"), "admin:index", group=_RECORD, staff_only=True),
)


def entries_for(permissions: frozenset[str], *, is_staff: bool) -> list[MenuEntry]:
    """The menu of a person with these permissions."""
    return [
        entry
        for entry in MENU
        if (is_staff or not entry.staff_only)
        and (
            not entry.operations
            or any(find_operation(name).may_be_called_with(permissions) for name in entry.operations)
        )
    ]

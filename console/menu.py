"""The menu of the console, in the order of a day's work, with the operations that admit people to each entry."""

from dataclasses import dataclass

from django.urls import reverse

from core.operation import find_operation
from core.text.vocabulary import declare_texts


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


_DIRECTORY, _ACCESS, _RECORD = "Directory", "Access", "Record"
MENU = (
    MenuEntry("Home", "console:home"),
    MenuEntry("Approvals", "console:changes", ("change-requests.approve", "change-requests.search")),
    MenuEntry("Scheduled", "console:scheduled", ("change-requests.search-scheduled",)),
    MenuEntry("Browse and search", "console:tree", ("objects.search",), _DIRECTORY),
    MenuEntry("Calls", "console:call", ("users.unlock", "users.reset-password"), _DIRECTORY),
    MenuEntry("Saved filters", "console:saved-filters", ("saved-filters.list",), _DIRECTORY),
    MenuEntry("Templates", "console:change-templates", ("change-templates.list",), _DIRECTORY),
    MenuEntry("Membership rules", "console:membership-rules", ("membership-rules.create",), _DIRECTORY),
    MenuEntry("Account states", "console:account-states", ("accounts.search",), _DIRECTORY),
    MenuEntry("Service accounts", "console:service-accounts", ("service-accounts.search",), _DIRECTORY),
    MenuEntry("Deleted objects", "console:deleted-objects", ("deleted-objects.search",), _DIRECTORY),
    MenuEntry("Runs", "console:runs", ("organization-units.plan-accounts",), _DIRECTORY),
    MenuEntry("API keys", "console:keys", ("api-keys.search",), _ACCESS),
    MenuEntry("Agents", "console:agents", ("agents.search", "agent-clients.search"), _ACCESS),
    MenuEntry("Roles", "console:roles", ("roles.search",), _ACCESS),
    MenuEntry("People", "console:people", ("people.search",), _ACCESS),
    MenuEntry("Connections", "console:connections", ("directories.list",), _ACCESS),
    MenuEntry("Operations log", "console:log", ("operations.search",), _RECORD),
    MenuEntry("Back office", "admin:index", group=_RECORD, staff_only=True),
)

declare_texts(text for entry in MENU for text in (entry.label, entry.group))


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

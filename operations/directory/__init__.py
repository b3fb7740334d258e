"""The operations on directories and the objects in them, runs and saved filters. Importing it declares them."""

from operations.directory import (
    accounts,
    change_templates,
    computers,
    contacts,
    deleted_objects,
    directories,
    groups,
    objects,
    organization_units,
    runs,
    saved_filters,
    schema,
    service_accounts,
    users,
)

__all__ = [
    "accounts",
    "change_templates",
    "computers",
    "contacts",
    "deleted_objects",
    "directories",
    "groups",
    "objects",
    "organization_units",
    "runs",
    "saved_filters",
    "schema",
    "service_accounts",
    "users",
]

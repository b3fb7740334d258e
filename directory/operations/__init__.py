"""The operations of this app on directory objects, runs and connections. Importing it declares them."""

from directory.operations import (
    access_control,
    accounts,
    computers,
    deleted_objects,
    directories,
    groups,
    object_history,
    objects,
    organization_unit_accounts,
    organization_units,
    reverting,
    runs,
    saved_filters,
    schema,
    service_accounts,
    users,
)

__all__ = [
    "access_control",
    "accounts",
    "computers",
    "deleted_objects",
    "directories",
    "groups",
    "object_history",
    "objects",
    "organization_unit_accounts",
    "organization_units",
    "reverting",
    "runs",
    "saved_filters",
    "schema",
    "service_accounts",
    "users",
]

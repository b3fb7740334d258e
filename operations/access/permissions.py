"""The permissions there are."""

from typing import Any

from django.contrib.auth.models import Permission
from typing_extensions import TypedDict

from core.call import Call
from core.operation import SIGNED_IN, rest_operation
from core.paging import Page, PageQuery, page_of
from keys.permission_catalogue import GRANTABLE, MEANINGS, of_gateway


class PermissionRecord(TypedDict):
    """`grantable` tells that a role may hold it; the others are for people only.

    `title`, `meaning` and `danger`, the reason to think twice before giving it, are for people to read.
    """

    name: str
    description: str
    group: str
    title: str
    meaning: str
    danger: str | None
    grantable: bool


@rest_operation(
    "permissions.search",
    "GET permissions",
    "Search permissions",
    permission=SIGNED_IN,
    query=PageQuery,
    output=Page[PermissionRecord],
)
def search_permissions(call: Call, *, query: PageQuery) -> Page[PermissionRecord]:
    """List the permissions that people and roles can be given."""
    permissions = of_gateway(Permission.objects.all())
    return page_of(call, permissions, query=query, order=("full_name", "id"), render=_record)


def _record(permission: Any) -> PermissionRecord:
    known = MEANINGS[permission.full_name]
    return {
        "name": permission.full_name,
        "description": permission.name,
        "group": known.group,
        "title": known.title,
        "meaning": known.text,
        "danger": known.danger or None,
        "grantable": permission.full_name in GRANTABLE,
    }

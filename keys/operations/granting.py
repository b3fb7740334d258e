"""What the operations on roles and people share: nobody grants what they do not hold."""

from collections.abc import Sequence

from django.contrib.auth.models import Permission

from gateway.core.call import Call
from gateway.core.errors import FieldError, Forbidden, InvalidRequest
from keys.permissions.assignable import GRANTABLE, find_permissions


def find_granted(call: Call, names: Sequence[str], *, only_grantable: bool) -> list[Permission]:
    """Django's permissions of these names; raises InvalidRequest naming an unknown one, Forbidden for one not held."""
    found = find_permissions(set(names))
    errors = [
        FieldError(InvalidRequest.code, f"{name} is no permission to grant here", pointer=f"#/permissions/{index}")
        for index, name in enumerate(names)
        if name not in found or (only_grantable and name not in GRANTABLE)
    ]
    if errors:
        raise InvalidRequest("; ".join(error.detail for error in errors), errors=errors)
    require_held(call, frozenset(names))
    return list(found.values())


def require_held(call: Call, names: frozenset[str]) -> None:
    """Refuse a grant of what the caller does not hold."""
    if not names <= call.permissions:
        raise Forbidden

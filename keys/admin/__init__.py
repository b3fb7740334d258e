"""People, roles and API keys in Django admin. The rules are those of the operations: nobody grants what they lack."""

from keys.admin.api_keys import ApiKeyAdmin
from keys.admin.people import PeopleGroupAdmin, PersonAdmin
from keys.admin.roles import RoleAdmin

__all__ = ["ApiKeyAdmin", "PeopleGroupAdmin", "PersonAdmin", "RoleAdmin"]

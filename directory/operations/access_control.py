"""Operations on who may do what: an object's access control list, and what was delegated on an organizational unit."""

from uuid import UUID

from directory.security import access_control
from directory.security.delegations import find_delegations
from directory.shapes.access_control import AccessControl, Delegations, DelegationsQuery
from gateway.core.call import Call
from gateway.core.operation import RateCategory, Target, operation


@operation(
    "objects.read-access-control",
    "GET ad/objects/{id}/access-control",
    permission="directory.read_acl",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
    output=AccessControl,
)
def read_access_control(call: Call, *, id: UUID) -> AccessControl:
    """Read who may do what with an object: owner, group and access control list, resolved to names."""
    return access_control.read_access_control(call, id)


@operation(
    "organization-units.read-delegations",
    "GET ad/organization-units/{id}/delegations",
    permission="directory.read_acl",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
    query=DelegationsQuery,
    output=Delegations,
)
def read_delegations(call: Call, *, id: UUID, query: DelegationsQuery) -> Delegations:
    """Read which tasks were delegated to whom on an organizational unit."""
    return find_delegations(call, id, inherited=query.inherited)

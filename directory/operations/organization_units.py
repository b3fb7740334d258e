"""Operations on organizational units: those that every kind has. Runs over their accounts are beside this module."""

from directory.operations.ordinary import declare_ordinary_operations
from directory.shapes.inputs import CreateOrganizationalUnit, UpdateOrganizationalUnit
from gateway.core.operation import Risk

declare_ordinary_operations(
    "organization-units",
    create=CreateOrganizationalUnit,
    update=UpdateOrganizationalUnit,
    documentation={
        "rename": """Give an organizational unit another name.

        The distinguished names of everything below change with it.
        """,
    },
    move_risk=Risk.DESTRUCTIVE,
)

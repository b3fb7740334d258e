"""Operations on computers: those that every kind and every account has."""

from directory.shapes.inputs import CreateComputer, UpdateAccount
from operations.directory.common_operations import declare_ordinary_operations

declare_ordinary_operations(
    "computers",
    create=CreateComputer,
    update=UpdateAccount,
    documentation={
        "create": "Create a computer account, disabled unless asked otherwise; an enabled one needs a password.",
        "update": "Update attributes and account options of a computer, all in one atomic change.",
        "rename": """Give a computer another name.

        Only the object is renamed: sAMAccountName, dNSHostName and service principal names stay, and the machine keeps
        its name.
        """,
    },
)

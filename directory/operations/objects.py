"""Operations on objects of any class: those that every kind has, on one path for all of them."""

from directory.operations.ordinary import declare_ordinary_operations
from directory.shapes.inputs import CreateObject, UpdateObject

declare_ordinary_operations(
    "objects",
    create=CreateObject,
    update=UpdateObject,
    documentation={
        "create": "Create an object of any structural class.",
        "rename": """Give an object of any class another name.

        The distinguished names of everything below change with it.
        """,
    },
    batchable=False,
)

"""The record of an account found by its state: the usual one, and what the state was told by."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from directory.shapes.record import DirectoryObject


class Evidence(TypedDict):
    """One attribute that a state was told by. Values are written as in `attributes`: RFC 3339, `never`, numbers."""

    attribute: str
    value: Annotated[str | None, Field(description="The account's value; null when it has none.")]
    threshold: Annotated[
        str | None, Field(description="The moment, number or bit it was compared with; null when with none.")
    ]


class AccountInState(DirectoryObject):
    """A user, computer or service account, and why it is in the state that was asked for."""

    evidence: list[Evidence]

"""The record of an account that a service runs under: the usual one, and what its administrator wants to see."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from directory.shapes.access_control import Principal
from directory.shapes.record import DirectoryObject

ServiceAccountType = Literal["managed", "group-managed", "delegated-managed", "user-with-spn"]


class ServiceAccountPart(TypedDict):
    """What a service account has besides. The lists are empty and the interval null where the type has none."""

    type: ServiceAccountType
    servicePrincipalNames: list[str]
    hosts: Annotated[
        list[str], Field(description="Distinguished names of the computers a managed account is assigned to.")
    ]
    passwordReaders: Annotated[
        list[Principal],
        Field(description="Who may fetch the password of a group-managed account, and so run services under it."),
    ]
    passwordChangeIntervalDays: Annotated[
        int | None, Field(description="After how many days the directory changes the password by itself.")
    ]


class ServiceAccount(DirectoryObject):
    """An account that a service runs under."""

    serviceAccount: ServiceAccountPart  # noqa: N815 - a TypedDict too, with the members of JSON

"""Input shapes that the resources share: queries of reads and deletes, bodies of creates and updates."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from core.shapes import Body, CommaList, Flag, Guid, Query
from directory.shapes.account import AccountPart, GroupCategory, GroupPart, GroupScope
from directory.shapes.attribute_updates import CreateAttributes, RequestedUpdates
from directory.shapes.value_rules import MAX_NAME, MAX_SAM_ACCOUNT_NAME, MAX_USER_SAM_ACCOUNT_NAME


def example(**members: Any) -> ConfigDict:
    """The model configuration of a request body with one example of it."""
    return ConfigDict(**Body.model_config, json_schema_extra={"examples": [members]})


class ReadQuery(Query):
    attributes: Annotated[CommaList | None, Field(description="Attributes to return, with commas; `*` for all.")] = None


class ByDnQuery(ReadQuery):
    dn: Annotated[str, Field(min_length=1, description="Compared as the directory does: case and spaces do not count.")]


class DeleteQuery(Query):
    recursive: Annotated[Flag, Field(description="Delete everything below it too.")] = False


# Limits that `value_rules` holds are only documented here.
AnyName = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_NAME})]
Name = Annotated[AnyName, Field(min_length=1, description="The object's name in its container.")]
AccountName = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_SAM_ACCOUNT_NAME})]
UserAccountName = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_USER_SAM_ACCOUNT_NAME})]
Parent = Annotated[str, Field(min_length=1, description="The container: UUID or distinguished name.")]


class CreateNamed(CreateAttributes):
    """What every new object has: its name, its place, and attributes. A kind with nothing else takes it with an
    example of its own."""

    name: Name
    parent: Parent


class CreateObject(CreateNamed):
    model_config = example(name="Printers", parent="DC=corp,DC=example,DC=com", objectClass="container")

    object_class: Annotated[str, Field(min_length=1, description="One structural class of the directory's schema.")]


class CreateOrganizationalUnit(CreateNamed):
    model_config = example(
        name="Analysis", parent="OU=Staff,DC=corp,DC=example,DC=com", replace={"description": "Engines and numbers"}
    )


class CreateContact(CreateNamed):
    model_config = example(
        name="Mary Somerville",
        parent="OU=Partners,DC=corp,DC=example,DC=com",
        replace={"givenName": "Mary", "sn": "Somerville", "mail": "mary@example.org"},
    )


class CreateGroup(CreateNamed):
    model_config = example(
        name="Analysts", parent="OU=Groups,DC=corp,DC=example,DC=com", scope="global", type="security"
    )

    sam_account_name: Annotated[AccountName | None, Field(description="Default: the name.")] = None
    scope: GroupScope = "global"
    type: GroupCategory = "security"


class CreateAccount(CreateNamed):
    sam_account_name: Annotated[AccountName | None, Field(description="Default: the name.")] = None
    user_principal_name: Annotated[str | None, Field(min_length=1, max_length=1024)] = None
    password: Annotated[str | None, Field(max_length=256, repr=False, description="Needed for an enabled account.")] = (
        None
    )
    enabled: bool = False
    account: AccountPart | None = None


class CreateUser(CreateAccount):
    sam_account_name: Annotated[UserAccountName | None, Field(description="Default: the name.")] = None
    model_config = example(
        name="Ada Lovelace",
        parent="OU=Staff,DC=corp,DC=example,DC=com",
        samAccountName="ada",
        userPrincipalName="ada@corp.example.com",
        password="…",  # noqa: S106 - what is shown in the documentation
        enabled=True,
        account={"mustChangePassword": True},
        replace={"givenName": "Ada", "sn": "Lovelace", "mail": "ada@corp.example.com"},
    )


class CreateComputer(CreateAccount):
    model_config = example(
        name="WS-0042", parent="OU=Workstations,DC=corp,DC=example,DC=com", replace={"location": "London"}
    )


class UpdateOrganizationalUnit(RequestedUpdates):
    model_config = example(replace={"description": "Engines and numbers"}, clear=["street"])


class UpdateContact(RequestedUpdates):
    model_config = example(replace={"mail": "mary.somerville@example.org"}, clear=["telephoneNumber"])


class UpdateAccount(RequestedUpdates):
    model_config = example(
        replace={"title": "Countess"},
        add={"otherTelephone": ["+44 20 7946 0001"]},
        remove={"otherTelephone": ["+44 20 7946 0000"]},
        clear=["department"],
        account={"expiresAt": "2027-01-31T00:00:00Z"},
    )

    account: AccountPart | None = None


class UpdateGroup(RequestedUpdates):
    model_config = example(replace={"description": "Who runs the engine"}, group={"scope": "universal"})

    group: GroupPart | None = None


class UpdateObject(RequestedUpdates):
    model_config = example(replace={"description": "Kept for the auditors"})

    account: AccountPart | None = None
    group: GroupPart | None = None


class MoveObject(Body):
    model_config = example(parent="OU=Analysis,OU=Staff,DC=corp,DC=example,DC=com")

    parent: Parent


class RenameObject(Body):
    model_config = example(name="Ada King")

    name: Annotated[AnyName, Field(description="The new name; kept exactly as given.")]


Members = Annotated[list[Guid], Field(description="objectGUIDs, at most 1000.", json_schema_extra={"maxItems": 1000})]


class ChangeMembers(Body):
    model_config = example(
        add=["8e3f6a52-7d1b-4c0e-9a41-5b7f2c9d0e13"], remove=["2b9c4d7e-61f0-4a85-b3d2-0e8a7c5f4912"]
    )

    add: Members = []
    remove: Members = []

"""Input shapes that resources share: queries of reads and deletes, bodies of creates and updates, passwords.

The shape, limits and consistency of attribute updates (replace, add, remove, clear) are here; what they mean for an
entry, and whether the schema allows it, is in `modifications`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from typing_extensions import Self, TypedDict

from core.errors import FieldError, InvalidRequest
from core.shapes import RFC3339, Body, CommaList, Flag, Guid, PartialBody, Query, Timestamp, example, examples
from core.text.messages import message
from directory import errors
from directory.shapes.value_rules import MAX_NAME, MAX_SAM_ACCOUNT_NAME, MAX_USER_SAM_ACCOUNT_NAME

MAX_NAMES = 100
MAX_VALUES = 1000
MAX_VALUE_BYTES = 262_144


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError(message("must be a string or a list of strings"))  # noqa: TRY004 - pydantic reports ValueError
    return value


def _refuse_on_create(value: Any) -> Any:
    if value:
        raise ValueError(message("a new object has nothing to remove or clear"))
    return value


def _must_be_empty(limit: str) -> Any:
    return Field(description="Must be empty.", json_schema_extra={limit: 0})


Values = Annotated[
    list[str],
    BeforeValidator(_as_list),
    WithJsonSchema({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
AttributeUpdate = dict[str, Values]


class AttributeUpdates(PartialBody):
    """The attribute updates of a write. An attribute in `replace` or `clear` may be in no other."""

    replace: Annotated[AttributeUpdate, Field(description="Attributes that shall have exactly these values.")] = {}
    add: Annotated[AttributeUpdate, Field(description="Values to add; one that is present already is no change.")] = {}
    remove: Annotated[AttributeUpdate, Field(description="Values to remove; one that is absent is no change.")] = {}
    clear: Annotated[list[str], Field(description="Attributes that shall have no value.")] = []


class RequestedUpdates(AttributeUpdates):
    """The attribute updates of a request, which carries no more than one write may.

    Raises AttributesTooMany, TooManyValues or ValueTooLong when all else of its shape is right.
    """

    @model_validator(mode="after")
    def _require_limits(self) -> Self:
        require_limits(self)
        return self


class CreateAttributes(RequestedUpdates):
    """The attribute updates of a new object: `replace` and `add` mean the same, the others have no meaning."""

    remove: Annotated[AttributeUpdate, BeforeValidator(_refuse_on_create), _must_be_empty("maxProperties")] = {}
    clear: Annotated[list[str], BeforeValidator(_refuse_on_create), _must_be_empty("maxItems")] = []


GroupScope = Literal["global", "domainLocal", "universal"]
GroupCategory = Literal["security", "distribution"]

# The moment that FILETIMEs count from, 0, stands for "never".
_EARLIEST = datetime(1601, 1, 1, tzinfo=UTC)


def _refuse_uncountable(moment: datetime) -> datetime:
    if moment <= _EARLIEST:
        raise ValueError(message("is out of range: it must be after 1601-01-01"))
    return moment


def _read_expiry(value: Any, read_moment: ValidatorFunctionWrapHandler) -> Any:
    """A moment, or None for never. Null is refused: some programs send it for every member that they do not mean."""
    if value is None:
        raise ValueError(message('must be a timestamp, or "never" for an account that does not expire'))
    return None if value == "never" else read_moment(value)


class AccountPart(PartialBody):
    """Options of an account. A member that is left out stays as it is."""

    expires_at: Annotated[
        Annotated[Timestamp, AfterValidator(_refuse_uncountable)] | None,
        WrapValidator(_read_expiry),
        Field(description="RFC 3339, or `never`."),
        WithJsonSchema({"type": "string", "pattern": rf"^(never|{RFC3339})$"}),
    ] = None
    password_never_expires: bool = False
    must_change_password: bool = False


class GroupPart(PartialBody):
    """Scope and type of a group. A member that is left out stays as it is."""

    scope: GroupScope = "global"
    type: GroupCategory = "security"


class ReadQuery(Query):
    attributes: Annotated[CommaList | None, Field(description="Attributes to return, with commas; `*` for all.")] = None


class ByDnQuery(ReadQuery):
    dn: Annotated[str, Field(min_length=1, description="Compared as the directory does: case and spaces do not count.")]


class DeleteQuery(Query):
    recursive: Annotated[Flag, Field(description="Delete everything below it too.")] = False


# These limits are for the documentation; `value_rules` enforces them.
AnyName = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_NAME})]
Name = Annotated[AnyName, Field(min_length=1, description="The object's name in its container.")]
AccountName = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_SAM_ACCOUNT_NAME})]
UserAccountName = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_USER_SAM_ACCOUNT_NAME})]
Parent = Annotated[str, Field(min_length=1, description="The container: UUID or distinguished name.")]


class CreateNamed(CreateAttributes):
    """What every new object has: name, container and attributes. Kinds that need nothing else only add an example."""

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
    generate_password: Annotated[
        bool, Field(description="Let the gateway make a strong one, which the answer tells once.")
    ] = False
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


MAX_PASSWORD = 256  # [MS-SAMR] 3.1.1.7.2, in units of UTF-16; Samba takes longer ones, with which nobody could sign in


def utf16_length(text: str) -> int:
    """How many characters Windows counts: units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2


def _require_length(value: str) -> str:
    if not 1 <= utf16_length(value) <= MAX_PASSWORD:
        raise ValueError(message("must have 1 to {longest} characters", longest=MAX_PASSWORD))
    return value


Password = Annotated[
    str, AfterValidator(_require_length), Field(json_schema_extra={"minLength": 1, "maxLength": MAX_PASSWORD})
]
"""A field of this type must set `repr=False`, to keep the password out of logs."""


class ResetPassword(Body):
    """Exactly one of `newPassword` and `generate: true`."""

    model_config = examples({"newPassword": "…", "mustChange": True, "unlock": True}, {"generate": True})
    forms = MappingProxyType({"SetPassword": ("newPassword",), "GeneratePassword": ("generate",)})

    new_password: Annotated[Password | None, Field(repr=False, description="The password to set.")] = None
    generate: Annotated[bool, Field(description="Let the gateway make a strong one, which the answer tells once.")] = (
        False
    )
    must_change: Annotated[bool, Field(description="The user must choose another one at the next sign-in.")] = False
    unlock: Annotated[bool, Field(description="Unlock the account too; needs the permission to unlock accounts.")] = (
        False
    )

    def require_one_password(self) -> None:
        """Raise InvalidRequest, naming both members, unless the password is either given or to be generated."""
        if (self.new_password is None) == self.generate:
            return
        detail = message("give exactly one of newPassword and generate: true")
        raise InvalidRequest(
            detail,
            errors=[
                FieldError(InvalidRequest.code, detail, pointer=pointer) for pointer in ("#/newPassword", "#/generate")
            ],
        )


class ChangePassword(Body):
    model_config = example(currentPassword="…", newPassword="…")

    current_password: Annotated[Password, Field(repr=False, description="The password the account has now.")]
    new_password: Annotated[Password, Field(repr=False, description="The password it shall have.")]


class PasswordReset(TypedDict):
    """`generatedPassword` is shown only in this answer; null when the caller gave the password."""

    generatedPassword: str | None


def named_updates(updates: AttributeUpdates) -> Iterator[tuple[str, AttributeUpdate]]:
    """The updates that have values, each with its name."""
    yield from (("replace", updates.replace), ("add", updates.add), ("remove", updates.remove))


def attribute_names(updates: AttributeUpdates) -> frozenset[str]:
    """The names of all attributes in the updates, in lower case."""
    return frozenset(name.lower() for _, update in named_updates(updates) for name in update) | {
        name.lower() for name in updates.clear
    }


def pointer(*parts: str) -> str:
    """The JSON pointer of a member of the body."""
    return "#" + "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def require_limits(updates: AttributeUpdates) -> None:
    """Refuse more names, values or bytes than a write may carry, before anything reaches the directory.

    Raises AttributesTooMany, TooManyValues or ValueTooLong. A value is measured in bytes of UTF-8 as sent, so a binary
    one by its base64.
    """
    names = attribute_names(updates)
    if len(names) > MAX_NAMES:
        raise errors.AttributesTooMany(
            message(
                "{count} different attributes are named; at most {limit} may be.",
                count=len(names),
                limit=MAX_NAMES,
            ),
            maxAttributes=MAX_NAMES,
        )
    for update_name, update in named_updates(updates):
        counts: dict[str, int] = {}
        for name, values in update.items():
            where = pointer(update_name, name)
            counts[name.lower()] = counts.get(name.lower(), 0) + len(values)
            if counts[name.lower()] > MAX_VALUES:
                detail = message("more than {count} values for one attribute", count=MAX_VALUES)
                raise errors.TooManyValues.naming(
                    detail,
                    pointer=where,
                    subject=name,
                    maxValues=MAX_VALUES,
                )
            if any(len(value) * 4 > MAX_VALUE_BYTES and len(value.encode()) > MAX_VALUE_BYTES for value in values):
                detail = message("a value longer than {count} bytes", count=MAX_VALUE_BYTES)
                raise errors.ValueTooLong.naming(
                    detail,
                    pointer=where,
                    subject=name,
                    maxValueBytes=MAX_VALUE_BYTES,
                )


def require_consistency(updates: AttributeUpdates) -> None:
    """Refuse updates that contradict each other. Raises AttributesConflict.

    An attribute to replace or clear must be in no other update and in one spelling only, and no value may be both added
    and removed.
    """
    exclusive: dict[str, str] = {}
    cleared = sorted({name.lower() for name in updates.clear})
    for update_name, names in (
        ("replace", updates.replace),
        ("clear", cleared),
        ("add", updates.add),
        ("remove", updates.remove),
    ):
        for name in names:
            if name.lower() in exclusive:
                raise _update_conflict(update_name, name, f"is also in {exclusive[name.lower()]}")
            if update_name in ("replace", "clear"):
                exclusive[name.lower()] = update_name
    removed = {(name.lower(), value) for name, values in updates.remove.items() for value in values}
    for name, values in updates.add.items():
        if any((name.lower(), value) in removed for value in values):
            raise _update_conflict("add", name, "the same value is added and removed")


def _update_conflict(update_name: str, name: str, detail: str) -> errors.AttributesConflict:
    return errors.AttributesConflict.naming(detail, pointer=pointer(update_name, name), subject=name)

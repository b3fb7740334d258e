"""Input and output shapes of password operations."""

from typing import Annotated

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from core.errors import FieldError, InvalidRequest
from core.shapes import Body
from core.text.messages import message
from directory.shapes.inputs import example

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
"""To be given `repr=False` by the field it is the type of."""


class ResetPassword(Body):
    """Exactly one of `newPassword` and `generate: true`."""

    model_config = example(newPassword="…", mustChange=True, unlock=True)

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
    """`generatedPassword` is told once, here; null when the caller gave the password."""

    generatedPassword: str | None

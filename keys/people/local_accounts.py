"""Rules for local accounts, whoever makes or changes them: user name, e-mail address and password."""

from collections.abc import Collection

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from core.database import own_rows
from core.errors import Conflict, invalid_member
from core.text.messages import message
from core.text.names import username_complaint
from keys.models import Person, find_lookalike


def check_username(person: Person) -> None:
    """Refuse an invalid user name (InvalidRequest at `username`) or one that looks like another's (Conflict)."""
    try:
        person.clean_fields(exclude=[field.name for field in Person._meta.fields if field.name != "username"])
    except ValidationError as refusal:
        raise invalid_member("username", " ".join(refusal.message_dict["username"])) from None
    if complaint := username_complaint(person.username):
        raise invalid_member("username", complaint)
    if (other := find_lookalike(person)) is not None and other.username != person.username:
        raise Conflict(
            message(
                "There is a person called {username} already, whose name looks like this one.", username=other.username
            )
        )


def set_email(person: Person, address: str) -> None:
    """Set or clear the address for notices; raises InvalidRequest at `email`."""
    address = address.strip()
    if address:
        try:
            validate_email(address)
        except ValidationError:
            raise invalid_member("email", message("This is not an e-mail address.")) from None
    person.email = address


def set_password(person: Person, password: str) -> None:
    """Set a password, or raise InvalidRequest at `password` if the validators refuse it."""
    try:
        validate_password(password, person)
    except ValidationError as refusal:
        raise invalid_member("password", " ".join(refusal.messages)) from None
    person.set_password(password)


def save(person: Person, *, columns: Collection[str] | None = None) -> None:
    """Save the person, or only these columns; raises Conflict if another one got the name first."""
    own_rows.save(person, taken=f"There is a person called {person.username} already.", columns=columns)

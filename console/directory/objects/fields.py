"""What people see first and edit of each kind of object: attributes in the order of their work, called as people do.

All others are under "All attributes", and in the form under "Another attribute".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext_noop

from directory.shapes.kinds import Kind
from directory.shapes.wording.attribute_labels import label_of


class Form(StrEnum):
    """How a value is typed: on one line, as text of several lines, one value a line, or as the name of an object."""

    LINE = "line"
    TEXT = "text"
    LINES = "lines"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute and how its values are typed. `help` is in English, and translated where it is shown."""

    attribute: str
    form: Form = Form.LINE
    help: str = ""

    @property
    def label(self) -> str:
        return label_of(self.attribute)

    @property
    def key(self) -> str:
        """The field's name in a form."""
        return f"attributes.{self.attribute}"

    def text_of(self, values: Iterable[str]) -> str:
        """What stands in the field for the attribute's values."""
        return "\n".join(values).replace("\r\n", "\n")

    def values_of(self, text: str) -> list[str]:
        """The values that are typed: one a line, but of a text all lines are one, ended as Windows ends them."""
        if self.form is Form.TEXT:
            return [text.replace("\n", "\r\n")] if text.strip() else []
        return [line for line in text.split("\n") if line.strip()]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    fields: tuple[Field, ...]


_DISPLAY_NAME = Field("displayName")
_DESCRIPTION = Field("description")
_MAIL = Field("mail")
_NOTES = Field("info", Form.TEXT)
_MANAGED_BY = Field("managedBy", Form.OBJECT)
_ACCOUNT_NAME = Field("sAMAccountName", help=gettext_noop("sAMAccountName, the name before Windows 2000"))
_SERVICE_NAMES = Field("servicePrincipalName", Form.LINES)
_HOST_NAME = Field("dNSHostName")
_PERSON = (
    Field("givenName"),
    Field("sn"),
    _DISPLAY_NAME,
    _DESCRIPTION,
)
_CONTACT = (
    _MAIL,
    Field("telephoneNumber"),
    Field("mobile"),
    Field(
        "proxyAddresses",
        Form.LINES,
        gettext_noop("SMTP: before the main one, smtp: before the others"),
    ),
)
_ORGANISATION = (
    Field("title"),
    Field("department"),
    Field("company"),
    Field("manager", Form.OBJECT),
)
_CITY = (
    Field("l"),
    Field("st"),
    Field("postalCode"),
)

SECTIONS: Mapping[Kind, tuple[Section, ...]] = {
    Kind.USER: (
        Section(gettext_noop("Person"), (*_PERSON, Field("initials"))),
        Section(
            gettext_noop("Sign-in names"),
            (Field("userPrincipalName"), _ACCOUNT_NAME),
        ),
        Section(
            gettext_noop("Contact"),
            (
                *_CONTACT,
                Field("physicalDeliveryOfficeName"),
                Field("wWWHomePage"),
            ),
        ),
        Section(
            gettext_noop("Organisation"),
            (
                *_ORGANISATION,
                Field("employeeID"),
                Field("employeeNumber"),
                _NOTES,
            ),
        ),
        Section(gettext_noop("Address"), (Field("streetAddress", Form.TEXT), *_CITY)),
    ),
    Kind.GROUP: (
        Section(gettext_noop("Group"), (_DISPLAY_NAME, _DESCRIPTION, _ACCOUNT_NAME, _MAIL, _MANAGED_BY, _NOTES)),
    ),
    Kind.COMPUTER: (
        Section(
            gettext_noop("Computer"),
            (_DISPLAY_NAME, _DESCRIPTION, Field("location"), _MANAGED_BY),
        ),
        Section(gettext_noop("Names"), (_ACCOUNT_NAME, _HOST_NAME, _SERVICE_NAMES)),
    ),
    Kind.SERVICE_ACCOUNT: (
        Section(gettext_noop("Service account"), (_DISPLAY_NAME, _DESCRIPTION, _MANAGED_BY)),
        Section(gettext_noop("Names"), (_ACCOUNT_NAME, _HOST_NAME, _SERVICE_NAMES)),
    ),
    Kind.ORGANIZATIONAL_UNIT: (
        Section(gettext_noop("Organizational unit"), (_DISPLAY_NAME, _DESCRIPTION, _MANAGED_BY)),
        Section(gettext_noop("Address"), (Field("street", Form.TEXT), *_CITY)),
    ),
    Kind.CONTACT: (
        Section(gettext_noop("Person"), _PERSON),
        Section(gettext_noop("Contact"), _CONTACT),
        Section(gettext_noop("Organisation"), (*_ORGANISATION, _NOTES)),
    ),
    Kind.CONTAINER: (Section(gettext_noop("Container"), (_DISPLAY_NAME, _DESCRIPTION)),),
    Kind.OBJECT: (Section(gettext_noop("Object"), (_DISPLAY_NAME, _DESCRIPTION)),),
}
"""What is shown first and edited, by kind."""

ONLY_SHOWN: Mapping[Kind, tuple[Field, ...]] = {
    Kind.USER: (Field("directReports", Form.OBJECT),),
    Kind.COMPUTER: (
        Field("operatingSystem"),
        Field("operatingSystemVersion"),
    ),
    Kind.ORGANIZATIONAL_UNIT: (Field("gPLink"),),
}
"""What is shown first, but written by others."""


def fields_of(kind: Kind) -> Sequence[Field]:
    return [field for section in SECTIONS[kind] for field in section.fields]


READ = ",".join(
    dict.fromkeys(
        [
            *(field.attribute for kind in Kind for field in (*fields_of(kind), *ONLY_SHOWN.get(kind, ()))),
            *("objectSid", "primaryGroupID"),
        ]
    )
)
"""The attributes that the pages of an object ask for, whatever its kind."""

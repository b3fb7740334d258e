"""What people see first and edit of each kind of object: attributes in the order of their work, called as people do.

All others are under "All attributes", and in the form under "Another attribute".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext_noop

from directory.shapes.kinds import Kind


class Form(StrEnum):
    """How a value is typed: on one line, as text of several lines, one value a line, or as the name of an object."""

    LINE = "line"
    TEXT = "text"
    LINES = "lines"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute with what people call it, in English: it is translated where it is shown."""

    attribute: str
    label: str
    form: Form = Form.LINE
    help: str = ""

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


_DISPLAY_NAME = Field("displayName", gettext_noop("Display name"))
_DESCRIPTION = Field("description", gettext_noop("Description"))
_MAIL = Field("mail", gettext_noop("E-mail"))
_NOTES = Field("info", gettext_noop("Notes"), Form.TEXT)
_MANAGED_BY = Field("managedBy", gettext_noop("Managed by"), Form.OBJECT)
_ACCOUNT_NAME = Field(
    "sAMAccountName", gettext_noop("Account name"), help=gettext_noop("sAMAccountName, the name before Windows 2000")
)
_SERVICE_NAMES = Field("servicePrincipalName", gettext_noop("Service principal names"), Form.LINES)
_HOST_NAME = Field("dNSHostName", gettext_noop("DNS host name"))
_PERSON = (
    Field("givenName", gettext_noop("First name")),
    Field("sn", gettext_noop("Last name")),
    _DISPLAY_NAME,
    _DESCRIPTION,
)
_CONTACT = (
    _MAIL,
    Field("telephoneNumber", gettext_noop("Telephone")),
    Field("mobile", gettext_noop("Mobile")),
    Field(
        "proxyAddresses",
        gettext_noop("Proxy addresses"),
        Form.LINES,
        gettext_noop("SMTP: before the main one, smtp: before the others"),
    ),
)
_ORGANISATION = (
    Field("title", gettext_noop("Job title")),
    Field("department", gettext_noop("Department")),
    Field("company", gettext_noop("Company")),
    Field("manager", gettext_noop("Manager"), Form.OBJECT),
)
_CITY = (
    Field("l", gettext_noop("City")),
    Field("st", gettext_noop("State or province")),
    Field("postalCode", gettext_noop("Postal code")),
)

SECTIONS: Mapping[Kind, tuple[Section, ...]] = {
    Kind.USER: (
        Section(gettext_noop("Person"), (*_PERSON, Field("initials", gettext_noop("Initials")))),
        Section(
            gettext_noop("Sign-in names"),
            (Field("userPrincipalName", gettext_noop("User principal name")), _ACCOUNT_NAME),
        ),
        Section(
            gettext_noop("Contact"),
            (
                *_CONTACT,
                Field("physicalDeliveryOfficeName", gettext_noop("Office")),
                Field("wWWHomePage", gettext_noop("Web page")),
            ),
        ),
        Section(
            gettext_noop("Organisation"),
            (
                *_ORGANISATION,
                Field("employeeID", gettext_noop("Employee id")),
                Field("employeeNumber", gettext_noop("Employee number")),
                _NOTES,
            ),
        ),
        Section(gettext_noop("Address"), (Field("streetAddress", gettext_noop("Street"), Form.TEXT), *_CITY)),
    ),
    Kind.GROUP: (
        Section(gettext_noop("Group"), (_DISPLAY_NAME, _DESCRIPTION, _ACCOUNT_NAME, _MAIL, _MANAGED_BY, _NOTES)),
    ),
    Kind.COMPUTER: (
        Section(
            gettext_noop("Computer"),
            (_DISPLAY_NAME, _DESCRIPTION, Field("location", gettext_noop("Location")), _MANAGED_BY),
        ),
        Section(gettext_noop("Names"), (_ACCOUNT_NAME, _HOST_NAME, _SERVICE_NAMES)),
    ),
    Kind.SERVICE_ACCOUNT: (
        Section(gettext_noop("Service account"), (_DISPLAY_NAME, _DESCRIPTION, _MANAGED_BY)),
        Section(gettext_noop("Names"), (_ACCOUNT_NAME, _HOST_NAME, _SERVICE_NAMES)),
    ),
    Kind.ORGANIZATIONAL_UNIT: (
        Section(gettext_noop("Organizational unit"), (_DISPLAY_NAME, _DESCRIPTION, _MANAGED_BY)),
        Section(gettext_noop("Address"), (Field("street", gettext_noop("Street"), Form.TEXT), *_CITY)),
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
    Kind.USER: (Field("directReports", gettext_noop("Direct reports"), Form.OBJECT),),
    Kind.COMPUTER: (
        Field("operatingSystem", gettext_noop("Operating system")),
        Field("operatingSystemVersion", gettext_noop("Version")),
    ),
    Kind.ORGANIZATIONAL_UNIT: (Field("gPLink", gettext_noop("Group policy links")),),
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

"""What people see first and edit of each kind of object: attributes in the order of their work, called as people do.

All others are under "All attributes", and in the form under "Another attribute".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from directory.shapes.kinds import Kind


class Form(StrEnum):
    """How a value is typed: on one line, as text of several lines, one value a line, or as the name of an object."""

    LINE = "line"
    TEXT = "text"
    LINES = "lines"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute with what people call it."""

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


_DISPLAY_NAME = Field("displayName", "Display name")
_DESCRIPTION = Field("description", "Description")
_MAIL = Field("mail", "E-mail")
_NOTES = Field("info", "Notes", Form.TEXT)
_MANAGED_BY = Field("managedBy", "Managed by", Form.OBJECT)
_ACCOUNT_NAME = Field("sAMAccountName", "Account name", help="sAMAccountName, the name before Windows 2000")
_SERVICE_NAMES = Field("servicePrincipalName", "Service principal names", Form.LINES)
_HOST_NAME = Field("dNSHostName", "DNS host name")
_PERSON = (Field("givenName", "First name"), Field("sn", "Last name"), _DISPLAY_NAME, _DESCRIPTION)
_CONTACT = (
    _MAIL,
    Field("telephoneNumber", "Telephone"),
    Field("mobile", "Mobile"),
    Field("proxyAddresses", "Proxy addresses", Form.LINES, "SMTP: before the main one, smtp: before the others"),
)
_ORGANISATION = (
    Field("title", "Job title"),
    Field("department", "Department"),
    Field("company", "Company"),
    Field("manager", "Manager", Form.OBJECT),
)
_CITY = (Field("l", "City"), Field("st", "State or province"), Field("postalCode", "Postal code"))

SECTIONS: Mapping[Kind, tuple[Section, ...]] = {
    Kind.USER: (
        Section("Person", (*_PERSON, Field("initials", "Initials"))),
        Section("Sign-in names", (Field("userPrincipalName", "User principal name"), _ACCOUNT_NAME)),
        Section(
            "Contact", (*_CONTACT, Field("physicalDeliveryOfficeName", "Office"), Field("wWWHomePage", "Web page"))
        ),
        Section(
            "Organisation",
            (*_ORGANISATION, Field("employeeID", "Employee id"), Field("employeeNumber", "Employee number"), _NOTES),
        ),
        Section("Address", (Field("streetAddress", "Street", Form.TEXT), *_CITY)),
    ),
    Kind.GROUP: (Section("Group", (_DISPLAY_NAME, _DESCRIPTION, _ACCOUNT_NAME, _MAIL, _MANAGED_BY, _NOTES)),),
    Kind.COMPUTER: (
        Section("Computer", (_DISPLAY_NAME, _DESCRIPTION, Field("location", "Location"), _MANAGED_BY)),
        Section("Names", (_ACCOUNT_NAME, _HOST_NAME, _SERVICE_NAMES)),
    ),
    Kind.SERVICE_ACCOUNT: (
        Section("Service account", (_DISPLAY_NAME, _DESCRIPTION, _MANAGED_BY)),
        Section("Names", (_ACCOUNT_NAME, _HOST_NAME, _SERVICE_NAMES)),
    ),
    Kind.ORGANIZATIONAL_UNIT: (
        Section("Organizational unit", (_DISPLAY_NAME, _DESCRIPTION, _MANAGED_BY)),
        Section("Address", (Field("street", "Street", Form.TEXT), *_CITY)),
    ),
    Kind.CONTACT: (
        Section("Person", _PERSON),
        Section("Contact", _CONTACT),
        Section("Organisation", (*_ORGANISATION, _NOTES)),
    ),
    Kind.CONTAINER: (Section("Container", (_DISPLAY_NAME, _DESCRIPTION)),),
    Kind.OBJECT: (Section("Object", (_DISPLAY_NAME, _DESCRIPTION)),),
}
"""What is shown first and edited, by kind."""

ONLY_SHOWN: Mapping[Kind, tuple[Field, ...]] = {
    Kind.USER: (Field("directReports", "Direct reports", Form.OBJECT),),
    Kind.COMPUTER: (Field("operatingSystem", "Operating system"), Field("operatingSystemVersion", "Version")),
    Kind.ORGANIZATIONAL_UNIT: (Field("gPLink", "Group policy links"),),
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

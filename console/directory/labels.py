"""What people call attributes, for the heads of columns and the names of facts. The attribute's own name is beside it.

Attributes without a name of their own here are called as the schema calls them.
"""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, gettext_noop

from console.directory.objects.fields import ONLY_SHOWN, SECTIONS

_FURTHER = {
    "accountExpires": gettext_noop("Account expires"),
    "adminCount": gettext_noop("Was an administrator"),
    "badPasswordTime": gettext_noop("Last wrong password"),
    "badPwdCount": gettext_noop("Wrong passwords"),
    "c": gettext_noop("Country"),
    "cn": gettext_noop("Name"),
    "co": gettext_noop("Country"),
    "createTimeStamp": gettext_noop("Created"),
    "directReports": gettext_noop("Direct reports"),
    "distinguishedName": gettext_noop("Distinguished name"),
    "employeeType": gettext_noop("Employee type"),
    "facsimileTelephoneNumber": gettext_noop("Fax"),
    "groupType": gettext_noop("Group type"),
    "homeDirectory": gettext_noop("Home folder"),
    "homeDrive": gettext_noop("Home drive"),
    "homePhone": gettext_noop("Home telephone"),
    "ipPhone": gettext_noop("IP telephone"),
    "jpegPhoto": gettext_noop("Photo"),
    "lastLogon": gettext_noop("Last sign-in there"),
    "lastLogonTimestamp": gettext_noop("Last sign-in"),
    "lockoutTime": gettext_noop("Locked out"),
    "logonHours": gettext_noop("Sign-in hours"),
    "member": gettext_noop("Members"),
    "memberOf": gettext_noop("Member of"),
    "msDS-UserPasswordExpiryTimeComputed": gettext_noop("Password expires"),
    "name": gettext_noop("Name"),
    "objectClass": gettext_noop("Class"),
    "objectGUID": gettext_noop("Id"),
    "objectSid": gettext_noop("SID"),
    "ou": gettext_noop("Unit"),
    "otherTelephone": gettext_noop("Other telephones"),
    "pager": gettext_noop("Pager"),
    "profilePath": gettext_noop("Profile"),
    "pwdLastSet": gettext_noop("Password set"),
    "scriptPath": gettext_noop("Sign-in script"),
    "thumbnailPhoto": gettext_noop("Photo"),
    "uid": gettext_noop("User id"),
    "userAccountControl": gettext_noop("Account options"),
    "userWorkstations": gettext_noop("Computers to sign in at"),
    "whenChanged": gettext_noop("Changed"),
    "whenCreated": gettext_noop("Created"),
}
_OF_FIELDS = {
    field.attribute: field.label
    for fields in (
        *(section.fields for sections in SECTIONS.values() for section in sections),
        *ONLY_SHOWN.values(),
    )
    for field in fields
}
_LABELS = {name.lower(): label for name, label in {**_FURTHER, **_OF_FIELDS}.items()}


_GROUPS = {
    ("global", "security"): gettext_noop("global security group"),
    ("global", "distribution"): gettext_noop("global distribution group"),
    ("domainLocal", "security"): gettext_noop("domain-local security group"),
    ("domainLocal", "distribution"): gettext_noop("domain-local distribution group"),
    ("universal", "security"): gettext_noop("universal security group"),
    ("universal", "distribution"): gettext_noop("universal distribution group"),
}


def group_words(group: Mapping[str, Any]) -> str:
    """What kind of group it is, from the `group` of its record: "global security group"."""
    return gettext(_GROUPS[group["scope"], group["type"]])


def label_of(attribute: str) -> str:
    """What people call the attribute; its own name where nobody does."""
    label = _LABELS.get(attribute.lower())
    return attribute if label is None else gettext(label)

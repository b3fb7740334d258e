"""What people call attributes, for the heads of columns and the names of facts. The attribute's own name is beside it.

Attributes without a name of their own here are called as the schema calls them.
"""

from gateway.console.directory.objects.fields import ONLY_SHOWN, SECTIONS

_FURTHER = {
    "accountExpires": "Account expires",
    "adminCount": "Was an administrator",
    "badPasswordTime": "Last wrong password",
    "badPwdCount": "Wrong passwords",
    "c": "Country",
    "cn": "Name",
    "co": "Country",
    "createTimeStamp": "Created",
    "directReports": "Direct reports",
    "distinguishedName": "Distinguished name",
    "employeeType": "Employee type",
    "facsimileTelephoneNumber": "Fax",
    "groupType": "Group type",
    "homeDirectory": "Home folder",
    "homeDrive": "Home drive",
    "homePhone": "Home telephone",
    "ipPhone": "IP telephone",
    "jpegPhoto": "Photo",
    "lastLogon": "Last sign-in there",
    "lastLogonTimestamp": "Last sign-in",
    "lockoutTime": "Locked out",
    "logonHours": "Sign-in hours",
    "member": "Members",
    "memberOf": "Member of",
    "msDS-UserPasswordExpiryTimeComputed": "Password expires",
    "name": "Name",
    "objectClass": "Class",
    "objectGUID": "Id",
    "objectSid": "SID",
    "ou": "Unit",
    "otherTelephone": "Other telephones",
    "pager": "Pager",
    "profilePath": "Profile",
    "pwdLastSet": "Password set",
    "scriptPath": "Sign-in script",
    "thumbnailPhoto": "Photo",
    "uid": "User id",
    "userAccountControl": "Account options",
    "userWorkstations": "Computers to sign in at",
    "whenChanged": "Changed",
    "whenCreated": "Created",
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


def label_of(attribute: str) -> str:
    """What people call the attribute; its own name where nobody does."""
    return _LABELS.get(attribute.lower(), attribute)

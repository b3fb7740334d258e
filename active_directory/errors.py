"""The errors of the LDAP layer, and how python-ldap's exceptions are mapped to them.

`directory.errors` decides what a caller of the gateway is told about each.
"""

import re

import ldap


class LdapError(Exception):
    """A directory operation failed.

    ``message`` is the directory's own, without names of objects and source paths. ``hex_code`` is the Win32 code at its
    start ([MS-ERREF] 2.2), which is more precise than the LDAP ``result_code``. ``attribute`` is the offending one.
    """

    def __init__(
        self,
        message: str = "",
        *,
        hex_code: str | None = None,
        attribute: str | None = None,
        result_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hex_code = hex_code
        self.attribute = attribute
        self.result_code = result_code


class NotFound(LdapError):
    """The object does not exist."""


class AlreadyExists(LdapError):
    """The name, sAMAccountName, userPrincipalName or value is in use."""


class NotEmpty(LdapError):
    """The object has children."""


class VersionConflict(LdapError):
    """A guarded modify did not find the values it expected; nothing was changed."""


class PasswordPolicy(LdapError):
    """The domain's policy refuses the new password."""


class CurrentPasswordWrong(LdapError):
    """The current password given for a password change is wrong."""


class InvalidValue(LdapError):
    """The schema or the directory refuses a value or an attribute."""


class InvalidReference(InvalidValue):
    """A value names an object that does not exist."""


class AccessDenied(LdapError):
    """The gateway's own account lacks the right."""


class UnwillingToPerform(LdapError):
    """The directory refuses with unwillingToPerform (result 53), for a reason that depends on the operation."""


class FilterError(LdapError):
    """The directory or the client library cannot parse the filter."""


class LimitExceeded(LdapError):
    """The search reached a time, size or administrative limit of the directory."""


class Unavailable(LdapError):
    """No domain controller answers, and no write was sent.

    `may_have_bound` says whether a bind was sent whose password the server may still check.
    """

    may_have_bound = False


class BadCredentials(Unavailable):
    """The directory refuses a bind name or its password, usually those of the gateway's own account."""

    @property
    def sub_code(self) -> str | None:
        """The ``data`` in AD's refusal, in lower case (``52e``): a Win32 code in hexadecimal ([MS-ERREF] 2.2)."""
        return bind_sub_code(self.__cause__)

    @property
    def is_wrong_password(self) -> bool:
        """Whether the name or the password is wrong, rather than the account disabled, locked or expired."""
        return self.sub_code in ("52e", None)  # ERROR_LOGON_FAILURE


class TlsError(Unavailable):
    """The server's certificate is not trusted; the message says why."""


class OutcomeUnknown(LdapError):
    """A write was sent and never answered: it may have been applied, and usually was."""


class DirectoryFault(LdapError):
    """The directory answered with an error that has no meaning here."""


class ProtocolError(DirectoryFault):
    """The directory's answer violates LDAP or AD's specifications."""


# [MS-ERREF] 2.2: Win32 error codes, with which AD starts its messages.
_BY_HEX_CODE: dict[int, type[LdapError]] = {
    0x0005: AccessDenied,  # ERROR_ACCESS_DENIED
    0x0056: CurrentPasswordWrong,  # ERROR_INVALID_PASSWORD
    0x0524: AlreadyExists,  # ERROR_USER_EXISTS
    0x0525: InvalidReference,  # ERROR_NO_SUCH_USER
    0x0526: AlreadyExists,  # ERROR_GROUP_EXISTS
    0x0528: AlreadyExists,  # ERROR_MEMBER_IN_GROUP
    0x052C: PasswordPolicy,  # ERROR_ILL_FORMED_PASSWORD
    0x052D: PasswordPolicy,  # ERROR_PASSWORD_RESTRICTION
    0x0562: AlreadyExists,  # ERROR_MEMBER_IN_ALIAS
    0x200B: InvalidValue,  # ERROR_DS_INVALID_ATTRIBUTE_SYNTAX
    0x2015: NotEmpty,  # ERROR_DS_CANT_ON_NON_LEAF
    0x2071: AlreadyExists,  # ERROR_DS_OBJ_STRING_NAME_EXISTS
    0x2089: NotFound,  # ERROR_DS_NO_PARENT_OBJECT
    0x208C: NotEmpty,  # ERROR_DS_CHILDREN_EXIST
    0x208D: NotFound,  # ERROR_DS_OBJ_NOT_FOUND
    0x2098: AccessDenied,  # ERROR_DS_INSUFF_ACCESS_RIGHTS
    0x20B5: InvalidReference,  # ERROR_DS_NAME_REFERENCE_INVALID
    0x21C7: AlreadyExists,  # ERROR_DS_SPN_VALUE_NOT_UNIQUE_IN_FOREST
    0x21C8: AlreadyExists,  # ERROR_DS_UPN_VALUE_NOT_UNIQUE_IN_FOREST
    0x8009000D: UnwillingToPerform,  # NTE_NO_KEY
}

# From a guarded modify: a link was added or removed meanwhile, or the object it refers to was renamed or deleted.
_LINK_CONFLICTS = frozenset(
    {
        0x0525,  # ERROR_NO_SUCH_USER
        0x0528,  # ERROR_MEMBER_IN_GROUP
        0x0529,  # ERROR_MEMBER_NOT_IN_GROUP
        0x0561,  # ERROR_MEMBER_NOT_IN_ALIAS
        0x0562,  # ERROR_MEMBER_IN_ALIAS
        0x20B5,  # ERROR_DS_NAME_REFERENCE_INVALID
    }
)
_SAMBA_LINK_CONFLICT = re.compile(r"already (?:exists|deleted) for target GUID|Unable to find GUID for DN")

# Result codes of RFC 4511 4.1.9, and libldap's own below zero.
_BY_RESULT: dict[int, type[LdapError]] = {
    result: kind
    for kind, results in {
        DirectoryFault: (1,),
        LimitExceeded: (3, 4, 11),
        Unavailable: (8, 51, 52),
        InvalidValue: (16, 17, 19, 20, 21, 34, 64, 65, 67, 69),
        FilterError: (18, -7),
        NotFound: (32,),
        BadCredentials: (49,),
        AccessDenied: (50,),
        UnwillingToPerform: (53, 71),  # 71: a move to another naming context
        NotEmpty: (66,),
        AlreadyExists: (68,),
    }.items()
    for result in results
}

_DOWN = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.TIMEOUT, ldap.UNAVAILABLE, ldap.BUSY)
_CONNECTION_LOST = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.TIMEOUT, ldap.LOCAL_ERROR, ldap.DECODING_ERROR)

_HEX_CODE = re.compile(r"^\s*([0-9A-Fa-f]{8}):")
_ATTRIBUTE = re.compile(
    r"\bAtt [0-9a-f]+ \(([\w-]+)\)"  # Windows
    r"|(?:attribute|[Ee]lement|Modify of RDN)\s+'?([A-Za-z][\w-]*)'?(?=[\s:',(]|$)"  # Samba
    r"|samldb: '?(samAccountName|userPrincipalName|servicePrincipalName)'?"
)
_NOT_NAMES = frozenset("to of on in is value values syntax already or and for not".split())
_SOURCE_PATH = re.compile(r"\s*(?:\bat\s+)?(?:\.{1,2}/)*(?:[\w.-]+/)+[\w.-]+\.[ch](?::\d+)?(?::\w+)?")
_QUOTED_DN = re.compile(r"'(?:<[^>]*>;?)*(?:[A-Za-z][\w-]*|[\d.]+)=[^']*'|\"[A-Za-z][\w-]*=[^\"]*\"")
# A name ends with its last DC component: values before that may contain spaces and escapes.
_BARE_DN = re.compile(
    r"(?:CN|OU|DC|O|L|ST|C|UID)=(?:[^\n]*?,\s*DC=[\w-]+)(?:,\s*DC=[\w-]+)*|(?:CN|OU|DC)=[^\s,:'\"]+", re.IGNORECASE
)
_GUID = re.compile(r"<(?:GUID|SID)=[^>]*>|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_WINDOWS_SOURCE = re.compile(r"DSID-[0-9A-F]+,?\s*", re.IGNORECASE)


def error_from(error: ldap.LDAPError, *, guarded: bool = False, writing: bool = False) -> LdapError:
    """Map one of python-ldap's exceptions to this layer's.

    ``writing`` says that a write was sent, so that a lost connection leaves its outcome unknown. ``guarded`` says that
    it was a compare-and-swap, so that result 16 means that the old values are gone.
    """
    details = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    result = details.get("result")
    if writing and isinstance(error, _CONNECTION_LOST):
        return OutcomeUnknown("The connection was lost before the directory answered", result_code=result)
    if isinstance(error, _DOWN):
        return Unavailable(str(details.get("desc", "No answer")), result_code=result)
    # For its own errors (negative results) libldap leaves the text of the previous answer in place.
    raw = str(details.get("info") or "") if isinstance(result, int) and result > 0 else ""
    hex_code = match[1].upper() if (match := _HEX_CODE.match(raw)) else None
    kind = _kind(result, hex_code, raw, guarded=guarded)
    message = clean_message(raw) or str(details.get("desc", ""))
    return kind(message, hex_code=hex_code, attribute=_attribute(raw), result_code=result)


def bind_sub_code(error: BaseException | None) -> str | None:
    """The ``data`` sub-code in python-ldap's refusal of a bind, in lower case; None if there is none."""
    info = error.args[0].get("info", "") if error and error.args and isinstance(error.args[0], dict) else ""
    _, found, rest = str(info).partition(" data ")
    return rest.partition(",")[0].strip().lower() or None if found else None


def clean_message(raw: str) -> str:
    """Remove names of objects, GUIDs and source paths from a directory's message, but not its hex code.

    Callers see the message, and an object that it names may be outside their scopes.
    """
    text = raw.replace("\x00", "").strip()
    for pattern, replacement in (
        (_SOURCE_PATH, ""),
        (_WINDOWS_SOURCE, ""),
        (_QUOTED_DN, "the object"),
        (_BARE_DN, "the object"),
        (_GUID, "the object"),
    ):
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _kind(result: int | None, hex_code: str | None, raw: str, *, guarded: bool) -> type[LdapError]:
    if guarded and _is_conflict(result, hex_code, raw):
        return VersionConflict
    if result == 49:  # its hex code (80090308) is that of the security package; `bind_sub_code` reads the reason
        return BadCredentials
    by_code = _BY_HEX_CODE.get(int(hex_code, 16)) if hex_code else None
    if by_code is not None:
        return by_code
    if result == 19 and "already in use" in raw:  # Samba, of a userPrincipalName
        return AlreadyExists
    if "parent does not exist" in raw:  # Samba, of a rename (result 80)
        return NotFound
    return _BY_RESULT.get(result, DirectoryFault) if result is not None else DirectoryFault


def _is_conflict(result: int | None, hex_code: str | None, raw: str) -> bool:
    """Whether a compare-and-swap failed because the old value is gone or the new one is there already."""
    if result == 16:
        return "not found in the schema" not in raw  # which Samba answers with the same result
    if (hex_code and int(hex_code, 16) in _LINK_CONFLICTS) or _SAMBA_LINK_CONFLICT.search(raw):
        return True
    return result == 20 or (result == 19 and hex_code == "00002081")  # ERROR_DS_SINGLE_VALUE_CONSTRAINT


def _attribute(raw: str) -> str | None:
    for match in _ATTRIBUTE.finditer(raw):
        name: str | None = next((group for group in match.groups() if group), None)
        if name and name.lower() not in _NOT_NAMES:
            return "sAMAccountName" if name.lower() == "samaccountname" else name
    return None

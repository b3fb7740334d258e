"""The errors of directory objects (docs/api.md#errors-of-the-directory), and how those of the LDAP layer become them.

Everything that is said to a caller about a failure of the directory is decided here.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import active_directory as ldap
from core.errors import GatewayError
from core.text.messages import message

RETRY_AFTER_SECONDS = 5


class ObjectNotFound(GatewayError):
    status, code, title = 404, "AD.Object.NotFound", "There is no such object in the directory"


class AlreadyExists(GatewayError):
    status, code, title = 409, "AD.Object.AlreadyExists", "An object with this name or identifier exists already"


class NotEmpty(GatewayError):
    status, code, title = 409, "AD.Object.NotEmpty", "The object holds other objects"


class DeletionProtected(GatewayError):
    status, code, title = 409, "AD.Object.DeletionProtected", "The object is protected from accidental deletion"


class MoveBelowItself(GatewayError):
    status, code, title = 409, "AD.Object.MoveBelowItself", "An object cannot be moved to a place below itself"


class ParentDeleted(GatewayError):
    status, code, title = 409, "AD.Object.ParentDeleted", "The container the object was in does not exist any more"


class VersionMismatch(GatewayError):
    status, code, title = 412, "AD.Object.VersionMismatch", "The object has changed since it was read"


class GroupCycle(GatewayError):
    status, code, title = 409, "AD.Group.Cycle", "A group would become a member of itself"


class PrimaryGroup(GatewayError):
    status, code, title = (
        409,
        "AD.Group.PrimaryGroup",
        "Membership in a primary group is changed by another primary group only",
    )


class PasswordPolicyViolation(GatewayError):
    status, code, title = 422, "AD.Password.PolicyViolation", "The directory's password policy refuses this password"


class CurrentPasswordWrong(GatewayError):
    status, code, title = 422, "AD.Password.CurrentWrong", "The current password is not right"


class TooManyWrongPasswords(GatewayError):
    """One more wrong password might lock the account: the directory is not asked."""

    status, code, title = 429, "AD.Password.TooManyWrong", "There were too many wrong passwords for this account"

    def __init__(self, *, retry_after: int) -> None:
        super().__init__(headers={"Retry-After": str(retry_after)})


class PasswordRequired(GatewayError):
    status, code, title = 422, "AD.Password.Required", "An enabled account needs a password"


class AttributesTooMany(GatewayError):
    status, code, title = 400, "AD.Attributes.TooMany", "Too many different attributes in one write"


class TooManyValues(GatewayError):
    status, code, title = 400, "AD.Attributes.TooManyValues", "Too many values for one attribute"


class ValueTooLong(GatewayError):
    status, code, title = 400, "AD.Attributes.ValueTooLong", "A value is too long"


class AttributeUnknown(GatewayError):
    status, code, title = 400, "AD.Attributes.Unknown", "The directory's schema knows no such attribute"


class AttributeNotWritable(GatewayError):
    status, code, title = 400, "AD.Attributes.NotWritable", "This attribute cannot be written"


class AttributeNotReadable(GatewayError):
    status, code, title = 400, "AD.Attributes.NotReadable", "This attribute holds a secret and is never returned"


class AttributeSingleValued(GatewayError):
    status, code, title = 400, "AD.Attributes.SingleValued", "This attribute can have one value only"


class InvalidValue(GatewayError):
    status, code, title = 400, "AD.Attributes.InvalidValue", "A value is not one that this attribute can have"


class AttributesConflict(GatewayError):
    status, code, title = 400, "AD.Attributes.Conflict", "An attribute is named in two ways that exclude each other"


class FilterMalformed(GatewayError):
    """`position` is where the text stops being a filter, in characters from 0."""

    status, code, title = 400, "AD.Filter.Malformed", "The filter is not well-formed (RFC 4515)"


class FilterUnsupported(GatewayError):
    status, code, title = 400, "AD.Filter.Unsupported", "The directory does not support this filter"


class FilterTooCostly(GatewayError):
    """`term` is the one with which the filter asks for more of a domain controller than one request may."""

    status, code, title = 400, "AD.Filter.TooCostly", "The filter is too costly for the directory"


class DirectoryRejected(GatewayError):
    """The directory itself refuses a write; `directoryMessage` is its message without names and paths.

    Of what its schema or its other objects make certain, the gateway says it in the directory's place
    (`directory.changes.checks.prechecks`).
    """

    status, code, title = 422, "AD.Directory.Rejected", "The directory refuses this change"


class DirectoryDenied(GatewayError):
    """The account the gateway signs in with lacks the right: a matter of its administrator, not of the caller."""

    status, code, title = 502, "AD.Directory.Denied", "The gateway's own account may not do this in the directory"


class DirectoryFailed(GatewayError):
    """An answer of the directory that has no meaning here."""

    status, code, title = 502, "AD.Directory.Failed", "The directory answered in an unexpected way"


class LimitExceeded(GatewayError):
    status, code, title = 503, "AD.Directory.LimitExceeded", "The directory's time or size limit was reached"


class Unavailable(GatewayError):
    status, code, title = 503, "AD.Directory.Unavailable", "No domain controller answers"

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


class OutcomeUnknown(GatewayError):
    """A write was sent and no answer came; whether it was applied could not be found out.

    `recordId` is its record in the operations log, which will tell.
    """

    status, code, title = 504, "AD.Directory.OutcomeUnknown", "It is not known whether the change was applied"


_MEANING: dict[type[ldap.LdapError], type[GatewayError]] = {
    ldap.NotFound: ObjectNotFound,
    ldap.AlreadyExists: AlreadyExists,
    ldap.NotEmpty: NotEmpty,
    ldap.VersionConflict: VersionMismatch,
    ldap.PasswordPolicy: PasswordPolicyViolation,
    ldap.CurrentPasswordWrong: CurrentPasswordWrong,
    ldap.InvalidValue: DirectoryRejected,
    ldap.Refused: DirectoryRejected,
    ldap.AccessDenied: DirectoryDenied,
    ldap.FilterError: FilterUnsupported,
    ldap.LimitExceeded: LimitExceeded,
    ldap.Unavailable: Unavailable,
    ldap.OutcomeUnknown: OutcomeUnknown,
    ldap.DirectoryFault: DirectoryFailed,
}


# What the numbers of [MS-ERREF] mean (2.2 but for one) where Windows' message has nothing else in it.
_IN_WORDS = {
    0x2144: "A global group cannot have a domain-local group as a member.",
    0x2145: "A global group cannot have a universal group as a member.",
    0x2146: "A universal group cannot have a domain-local group as a member.",
    0x2147: "A global group cannot have a member from another domain.",
    0x2148: "A domain-local group cannot have a domain-local group of another domain as a member.",
    0x2149: "The group is the primary group of some of its members.",
    0x8009000D: (  # NTE_NO_KEY, an HRESULT (2.1.1)
        "The forest has no KDS root key in effect, from which the password of a group-managed service account is made. "
        "A domain administrator makes one (Add-KdsRootKey); it takes effect after 10 hours."
    ),
    0x2164: "A domain-local group can be a member of domain-local groups of its own domain only.",
}

# Which identifier another object has, of errors that tell it by their number alone.
_TAKEN = {
    0x0524: "sAMAccountName",  # ERROR_USER_EXISTS
    0x0526: "sAMAccountName",  # ERROR_GROUP_EXISTS
    0x21C7: "servicePrincipalName",  # ERROR_DS_SPN_VALUE_NOT_UNIQUE_IN_FOREST
    0x21C8: "userPrincipalName",  # ERROR_DS_UPN_VALUE_NOT_UNIQUE_IN_FOREST
}


def from_ldap(error: ldap.LdapError) -> GatewayError:
    """What a caller is told about an error of the LDAP layer."""
    if isinstance(error, ldap.TlsError):
        return Unavailable(
            message("The connection to the directory is not secured by TLS; a test of the connection says why.")
        )
    if isinstance(error, ldap.BadCredentials):
        return Unavailable(
            message("The directory refuses the gateway's own account; a test of the connection says why.")
        )
    meaning = next(_MEANING[kind] for kind in type(error).__mro__ if kind in _MEANING)
    number = int(error.hex_code, 16) if error.hex_code else 0
    if meaning is AlreadyExists:
        taken = error.attribute if error.attribute in _TAKEN.values() else _TAKEN.get(number)
        return AlreadyExists(message("The {taken} is in use.", taken=taken) if taken else None)
    if meaning is not DirectoryRejected:
        return meaning()
    detail = _IN_WORDS.get(number)
    if error.attribute:
        return DirectoryRejected(detail, directoryMessage=error.message, attribute=error.attribute)
    return DirectoryRejected(detail, directoryMessage=error.message)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the LDAP layer leave the block as errors of the gateway; others pass."""
    try:
        yield
    except ldap.LdapError as error:
        raise from_ldap(error) from error

"""The errors of directory operations (docs/api.md#errors-of-the-directory) and their translation from LDAP errors.

This module alone decides what a caller learns of a failure in the directory.
"""

from typing import Any

import active_directory as ldap
from core.errors import GatewayError
from core.text.messages import message

RETRY_AFTER_SECONDS = 5


class ObjectNotFound(GatewayError):
    status, code, title = 404, "AD.Object.NotFound", "There is no such object in the directory"


class ObjectAmbiguous(GatewayError):
    status, code, title = 409, "AD.Object.Ambiguous", "Several objects have this name; give the objectGUID"


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
    """Another wrong password might lock the account out, so the gateway does not ask the directory."""

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
    """`position` is the offset of the syntax error, in characters from 0."""

    status, code, title = 400, "AD.Filter.Malformed", "The filter is not well-formed (RFC 4515)"


class FilterUnsupported(GatewayError):
    status, code, title = 400, "AD.Filter.Unsupported", "The directory does not support this filter"


class FilterValueInvalid(GatewayError):
    """`position` is where the value starts, in characters from 0. AD would find nothing by it."""

    status, code, title = 400, "Search.FilterInvalid", "A value in the filter is not one that its attribute can have"


class FilterTooCostly(GatewayError):
    """`term` is the one that exceeds the cost one request may cause on a domain controller."""

    status, code, title = 400, "AD.Filter.TooCostly", "The filter is too costly for the directory"


class DirectoryRejected(GatewayError):
    """The directory refuses a write; `directoryMessage` is its message without names and paths.

    The gateway raises it itself where the schema or another object makes the refusal certain
    (`directory.changes.targets`).
    """

    status, code, title = 422, "AD.Directory.Rejected", "The directory refuses this change"


class DirectoryDenied(GatewayError):
    """The bind account lacks a right. Only its administrator can help, not the caller."""

    status, code, title = 502, "AD.Directory.Denied", "The gateway's own account may not do this in the directory"


class DirectoryFailed(GatewayError):
    """The directory answered with a result code that this operation does not expect."""

    status, code, title = 502, "AD.Directory.Failed", "The directory answered in an unexpected way"


class LimitExceeded(GatewayError):
    status, code, title = 503, "AD.Directory.LimitExceeded", "The directory's time or size limit was reached"


class Unavailable(GatewayError):
    status, code, title = 503, "AD.Directory.Unavailable", "No domain controller answers"

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


class OutcomeUnknown(GatewayError):
    """A write was sent, its answer was lost, and the directory does not show yet whether it was applied.

    `recordId` is its record in the operations log, where the outcome will appear.
    """

    status, code, title = 504, "AD.Directory.OutcomeUnknown", "It is not known whether the change was applied"


_ERRORS_OF_LDAP: dict[type[ldap.LdapError], type[GatewayError]] = {
    ldap.NotFound: ObjectNotFound,
    ldap.AlreadyExists: AlreadyExists,
    ldap.NotEmpty: NotEmpty,
    ldap.VersionConflict: VersionMismatch,
    ldap.PasswordPolicy: PasswordPolicyViolation,
    ldap.CurrentPasswordWrong: CurrentPasswordWrong,
    ldap.InvalidValue: DirectoryRejected,
    ldap.UnwillingToPerform: DirectoryRejected,
    ldap.AccessDenied: DirectoryDenied,
    ldap.FilterError: FilterUnsupported,
    ldap.LimitExceeded: LimitExceeded,
    ldap.Unavailable: Unavailable,
    ldap.OutcomeUnknown: OutcomeUnknown,
    ldap.DirectoryFault: DirectoryFailed,
}


# Windows answers these refusals with the bare number: a Win32 error code ([MS-ERREF] 2.2) unless said otherwise.
_REASONS_BY_CODE = {
    0x2144: "A global group cannot have a domain-local group as a member.",
    0x2145: "A global group cannot have a universal group as a member.",
    0x2146: "A universal group cannot have a domain-local group as a member.",
    0x2147: "A global group cannot have a member from another domain.",
    0x2148: "A domain-local group cannot have a domain-local group of another domain as a member.",
    0x2149: "The group is the primary group of some of its members.",
    0x2164: "A domain-local group can be a member of domain-local groups of its own domain only.",
    0x8009000D: (  # NTE_NO_KEY, an HRESULT (2.1.1)
        "The forest has no KDS root key in effect, from which the password of a group-managed service account is made. "
        "A domain administrator makes one (Add-KdsRootKey); it takes effect after 10 hours."
    ),
}

# The identifier in conflict, for errors that name it only by their number ([MS-ERREF] 2.2).
_IDENTIFIERS_BY_CODE = {
    0x0524: "sAMAccountName",  # ERROR_USER_EXISTS
    0x0526: "sAMAccountName",  # ERROR_GROUP_EXISTS
    0x21C7: "servicePrincipalName",  # ERROR_DS_SPN_VALUE_NOT_UNIQUE_IN_FOREST
    0x21C8: "userPrincipalName",  # ERROR_DS_UPN_VALUE_NOT_UNIQUE_IN_FOREST
}


def from_ldap(error: ldap.LdapError) -> GatewayError:
    """Translate an error of the LDAP layer into the one that a caller gets."""
    if isinstance(error, ldap.TlsError):
        return Unavailable(
            message("The connection to the directory is not secured by TLS; a test of the connection says why.")
        )
    if isinstance(error, ldap.BadCredentials):
        return Unavailable(
            message("The directory refuses the gateway's own account; a test of the connection says why.")
        )
    translation = next(_ERRORS_OF_LDAP[kind] for kind in type(error).__mro__ if kind in _ERRORS_OF_LDAP)
    code = int(error.hex_code, 16) if error.hex_code else 0
    if translation is AlreadyExists:
        known = _IDENTIFIERS_BY_CODE
        identifier = error.attribute if error.attribute in known.values() else known.get(code)
        return AlreadyExists(message("The {taken} is in use.", taken=identifier) if identifier else None)
    if translation is not DirectoryRejected:
        return translation()
    members: dict[str, Any] = {"attribute": error.attribute} if error.attribute else {}
    return DirectoryRejected(_REASONS_BY_CODE.get(code), directoryMessage=error.message, **members)


class translate_ldap_errors:  # noqa: N801 - called as a function, and quicker than a generator's context manager
    """Raise errors of the LDAP layer in the block as errors of the gateway; others pass unchanged."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, ldap.LdapError):
            raise from_ldap(error) from error

"""Errors of this app: why a change request cannot be decided, and why an approved change failed."""

from core.errors import Forbidden, GatewayError


class NotPending(GatewayError):
    status, code, title = 409, "Approvals.NotPending", "The change request was cancelled or has expired"


class AlreadyDecided(GatewayError):
    status, code, title = 409, "Approvals.AlreadyDecided", "The change request was decided already"


class OwnRequest(GatewayError):
    status, code, title = 409, "Approvals.OwnRequest", "You cannot decide your own change"


class AskedElsewhere(Forbidden):
    """An agent withdraws what another credential of its person has asked for."""

    status, code, title = 403, "Approvals.AskedElsewhere", "This agent has not asked for this change"


class PasskeyNeeded(Forbidden):
    """The configuration lets nobody decide this change without a passkey."""

    status, code, title = 403, "Approvals.PasskeyNeeded", "This decision takes a passkey"


class Changed(GatewayError):
    status, code, title = 409, "Approvals.Changed", "The change request is not the one that was shown"


class NotApplied(GatewayError):
    """An approved change whose worker was lost; `code` is the code that its log record was closed with."""

    status, code, title = 503, "AD.Directory.NotApplied", "The change was not applied"

    def __init__(self, code: str | None = None) -> None:
        super().__init__()
        self.code = code or type(self).code


class PartlyFailed(GatewayError):
    """An approved run in which some accounts failed. The run says which ones, and why."""

    status, code, title = 422, "Approvals.PartlyFailed", "A part of the change failed"


class NotAppliedInTime(GatewayError):
    status, code, title = 409, "Approvals.NotAppliedInTime", "The approved change could not be applied in time"

"""Refusals of this app: why a change request cannot be decided, and why an approved change failed."""

from core.errors import GatewayError


class NotPending(GatewayError):
    status, code, title = 409, "Approvals.NotPending", "The change request was cancelled or has expired"


class AlreadyDecided(GatewayError):
    status, code, title = 409, "Approvals.AlreadyDecided", "The change request was decided already"


class OwnRequest(GatewayError):
    status, code, title = 409, "Approvals.OwnRequest", "You cannot decide your own change"


class Changed(GatewayError):
    status, code, title = 409, "Approvals.Changed", "The change request is not the one that was shown"


class NotApplied(GatewayError):
    """An approved change whose worker was lost; `code` is the one its record was closed with."""

    status, code, title = 503, "AD.Directory.NotApplied", "The change was not applied"

    def __init__(self, code: str | None = None) -> None:
        super().__init__()
        self.code = code or type(self).code


class PartlyFailed(GatewayError):
    """A run that was approved, and in which accounts failed. The run tells which, and why each of them did."""

    status, code, title = 422, "Approvals.PartlyFailed", "A part of the change failed"


class NotAppliedInTime(GatewayError):
    status, code, title = 409, "Approvals.NotAppliedInTime", "The approved change could not be applied in time"

"""The operations on change requests. Importing it declares them."""

from operations.approvals.change_requests import (
    comments,
    forecasts,
    grouped_review,
    inbox,
    requests,
    resubmission,
    run_plans,
)

__all__ = ["comments", "forecasts", "grouped_review", "inbox", "requests", "resubmission", "run_plans"]

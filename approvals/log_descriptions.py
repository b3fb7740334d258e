"""Change requests as the operations log tells of the decisions about them."""

from approvals.models import ChangeRequest
from audit.model_changes.descriptions import Facts, Secret, audited_model
from core.shapes import render_timestamp


@audited_model("change-requests", ChangeRequest, hidden=("input", "secret"))
def describe_change_request(request: ChangeRequest) -> Facts:
    kept_until = render_timestamp(request.secret_until)
    shown = {
        "status": request.status,
        "firstApprovedBy": request.first_approved_by,
        "firstComment": request.first_comment,
        "decidedBy": request.decided_by,
        "comment": request.comment,
        "assignedTo": request.assigned_to,
    }
    said = tuple(f"{each['by']}: {each['text']}" for each in request.comments or ())
    return Facts(
        name=request.operation,  # not the name of its target: whoever may see only part of the log is not told here
        shown={
            **{name: (value,) if value else () for name, value in shown.items()},
            "comments": said,
            "secret": Secret(kept_until or ""),
        },
    )

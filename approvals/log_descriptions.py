"""Change requests as the operations log tells of the decisions about them."""

from approvals.models import ChangeRequest
from audit.model_changes.descriptions import Facts, Secret, audited_model, columns_of
from core.shapes import render_timestamp
from core.text.messages import message


@audited_model("change-requests", ChangeRequest, one=message("a change request"), hidden=("input", "secret"))
def describe_change_request(request: ChangeRequest) -> Facts:
    shown = columns_of(request, "status", "first_approved_by", "first_comment", "decided_by", "comment", "assigned_to")
    return Facts(
        name=request.operation,  # not the name of its target: whoever may see only part of the log is not told here
        shown={
            **shown,
            "comments": [f"{each['by']}: {each['text']}" for each in request.comments or ()],
            "secret": Secret(render_timestamp(request.secret_until) or ""),
        },
    )

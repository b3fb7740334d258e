"""How the operations log describes change requests when somebody decides them."""

from approvals.models import ChangeRequest
from audit.model_changes.descriptions import Facts, Secret, audited_model, columns_of
from core.shapes import render_timestamp
from core.text.messages import message


@audited_model(
    "change-requests",
    ChangeRequest,
    one=message("a change request"),
    columns=("status", "first_approved_by", "first_comment", "decided_by", "comment", "assigned_to"),
    members=("comments", "secret"),
    hidden=("input", "secret"),
)
def describe_change_request(request: ChangeRequest) -> Facts:
    return Facts(
        name=request.operation,  # not the target's name: readers may be confined to other parts
        shown={
            **columns_of(request),
            "comments": [f"{each['by']}: {each['text']}" for each in request.comments or ()],
            "secret": Secret(render_timestamp(request.secret_until) or ""),
        },
    )

"""More access for a key or a person, waiting for a second person like a change of the directory does."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings

from approvals.models import ChangeRequest
from approvals.states import publish
from audit.identifiers import new_identifier
from audit.model_changes.descriptions import Changed, fingerprint_of
from audit.model_changes.recording import AccessNeedsTwo
from core.call import Call
from core.operation import Operation, Risk
from core.text.messages import message, wording_of


def hold_access(
    call: Call,
    *,
    operation: Operation,
    arguments: Mapping[str, str],
    query: Mapping[str, str],
    document: Any,
    refusal: AccessNeedsTwo,
) -> ChangeRequest:
    """Keep a change of the gateway's own tables until a second person decides. Joins the caller's transaction."""
    identifier, now = new_identifier()
    made = changed_by(operation, refusal.made)
    reasons = [message("This gives more access: {reason}.", reason=reason) for reason in refusal.reasons]
    request = ChangeRequest(
        id=identifier,
        operation=operation.name,
        risk=Risk.SECURITY.value,
        risk_reasons=reasons,
        wording=wording_of(reasons),
        target_id=made.id if made.before else None,
        target_kind=made.table.resource,
        target_dn=made.name,
        requester_id=call.person.id,
        requester=call.person.username,
        key_id=call.credential.id,
        key_name=call.credential.name,
        client_address=call.client_address,
        request_id=call.request_id,
        call_id=call.call_id,
        reason=call.reason,
        changes=made.changes,
        input=json.dumps(
            {
                "arguments": dict(arguments),
                "query": dict(query),
                "document": document,
                "made": fingerprint_of(refusal.made),
            }
        ),
        if_match=None if call.if_match is None else sorted(call.if_match),
        created_at=now,
        expires_at=now + timedelta(hours=settings.CONFIGURATION.Approvals.ExpireAfterHours),
    )
    request.digest = request.make_digest()
    request.save(force_insert=True)
    publish(request)
    return request


def is_stale(request: ChangeRequest, made: list[Changed]) -> bool:
    """Whether the change would begin from, or come to, something else than what was asked for."""
    return bool(request.kept_input().get("made") != fingerprint_of(made))


def changed_by(operation: Operation, made: list[Changed]) -> Changed:
    """What an operation is about, of all that it changes."""
    return next((item for item in made if item.table.resource == operation.resource), made[0])

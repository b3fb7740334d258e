"""What a browser needs to ask for the passkey that confirms one decision."""

import json
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from core.call import Call
from core.operation import rest_operation
from core.shapes import Body, example
from keys.models import Person
from keys.sign_in import passkeys
from keys.sign_in.confirmation import decision_purpose
from operations.approvals.change_requests.grouped_review import MAX_REQUESTS, OneDecision
from operations.approvals.change_requests.requests import DECIDE


class AskForPasskey(Body):
    """The decision that the passkey is to confirm, about one request or about several together."""

    model_config = example(
        decision="approve", changeRequests=[{"id": "0192f1c8-5b1e-7c44-9d0e-0f5f2f6a7b11", "digest": "9f2c…"}]
    )

    decision: Literal["approve", "reject"]
    change_requests: Annotated[list[OneDecision], Field(min_length=1, max_length=MAX_REQUESTS)]


class AllowedPasskeyJson(TypedDict):
    id: str
    type: str


class PublicKeyJson(TypedDict):
    """`PublicKeyCredentialRequestOptionsJSON` of WebAuthn."""

    challenge: str
    timeout: int
    rpId: str
    allowCredentials: list[AllowedPasskeyJson]
    userVerification: str


class PasskeyOptionsJson(TypedDict):
    publicKey: PublicKeyJson


@rest_operation(
    "change-requests.find-passkey-options",
    "POST change-requests/passkey-options",
    "Find the options for the passkey of a decision",
    permission=DECIDE,
)
def find_passkey_options(call: Call, *, body: AskForPasskey) -> PasskeyOptionsJson:
    """Get the options for `navigator.credentials.get()`, whose answer is the decision's `passkey`.

    The answer counts once, within ten minutes, in this session and for this decision alone.
    """
    purpose = decision_purpose(body.decision, [(item.id, item.digest) for item in body.change_requests])
    person = Person.objects.get(pk=call.person.id)
    return {"publicKey": json.loads(passkeys.options(purpose, call.credential.id, person))}

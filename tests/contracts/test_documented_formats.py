"""What the documents say of strings that are more than text: times, identifiers, words of a vocabulary."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.management.openapi import SURFACES, document_file
from gateway.surfaces.openapi.examples import MEMBERS

TEXT_IN_SPITE_OF_ITS_NAME = {
    ("AgentClientRecord", "clientId"): "an OAuth client's, which may be an address",
    ("AgentRecord", "clientId"): "an OAuth client's, which may be an address",
    ("SignInProviderRecord", "clientId"): "the provider's to choose",
    ("Problem", "requestId"): "the client's own, of any form, if it sent one",
    ("RecordJson", "requestId"): "the client's own, of any form, if it sent one",
    ("ReviewJson", "requestId"): "the client's own, of any form, if it sent one",
    ("ApiKeyRecord", "lookupId"): "the first part of a key's value",
    ("CreatedApiKeyRecord", "lookupId"): "the first part of a key's value",
    ("AllowedPasskeyJson", "id"): "of the authenticator's making (WebAuthn)",
    ("PublicKeyJson", "rpId"): "a domain (WebAuthn)",
    ("RecordJson", "credentialId"): "the gateway itself is called by its name",
    **{
        (shape, member): reason
        for shape in ("FoundRecordJson", "OneRecordJson", "EvidenceRecordJson")
        for member, reason in (
            ("requestId", "the client's own, of any form, if it sent one"),
            ("credentialId", "the gateway itself is called by its name"),
        )
    },
}
VOCABULARIES = {"status", "state", "risk", "outcome", "surface", "reversible", "supervisionLevel", "scope", "effect"}
NO_VOCABULARY = {
    ("Problem", "status"): "a number",
    ("KeptProblem", "status"): "a number",
    ("BatchResult", "status"): "a number",
    ("BatchPreview", "status"): "a number",
}


DOCUMENTS = {surface.value: json.loads(document_file(surface).read_text("utf-8")) for surface in SURFACES}


@pytest.fixture(params=sorted(DOCUMENTS))
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENTS[request.param]
    return found


@pytest.fixture
def components(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"]
    return found


def members(components: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, component in components.items():
        for member, schema in component.get("properties", {}).items():
            yield name, member, schema


def says(schema: Any, components: dict[str, Any]) -> dict[str, Any]:
    """The schema without null, and what it refers to."""
    choices = [item for item in schema.get("anyOf", ()) if item.get("type") != "null"]
    if len(choices) == 1:
        return says(choices[0], components)
    if "$ref" in schema:
        return says(components[schema["$ref"].rsplit("/", 1)[1]], components)
    found: dict[str, Any] = schema
    return found


def test_every_time_is_one(components: dict[str, Any]) -> None:
    times = [item for item in members(components) if item[1].endswith("At") or item[1] == "at"]
    assert len(times) > 10
    others = [item[:2] for item in times if says(item[2], components).get("format") != "date-time"]
    assert others == [("AccountPart", "expiresAt")], "a time or `never`"


def test_every_identifier_is_a_uuid_unless_it_says_why_not(components: dict[str, Any]) -> None:
    identifiers = [item for item in members(components) if item[1] == "id" or item[1].endswith("Id")]
    assert len(identifiers) > 10
    texts = [item[:2] for item in identifiers if says(item[2], components).get("format") != "uuid"]
    assert [item for item in texts if item not in TEXT_IN_SPITE_OF_ITS_NAME] == []


def test_every_closed_vocabulary_is_listed(components: dict[str, Any]) -> None:
    words = [item for item in members(components) if item[1] in VOCABULARIES]
    assert len(words) > 5
    open_ones = [item[:2] for item in words if "enum" not in says(item[2], components)]
    assert [item for item in open_ones if item not in NO_VOCABULARY] == []


def test_nothing_is_constant(document: dict[str, Any]) -> None:
    """Several generators make clients of it that do not compile."""
    assert '"const"' not in json.dumps(document)


def test_every_answer_is_one_component(document: dict[str, Any]) -> None:
    answers = [
        (operation["operationId"], status, content["schema"])
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, response in operation["responses"].items()
        for media, content in response.get("content", {}).items()
        if media == "application/json"
    ]
    assert len(answers) > 50
    assert [item[:2] for item in answers if "$ref" not in item[2]] == []


def test_every_member_is_described_and_no_other(components: dict[str, Any]) -> None:
    """The linter holds it for parameters and answers."""
    assert [item[:2] for item in members(components) if not item[2]["description"]] == []
    everywhere = [item for document in DOCUMENTS.values() for item in members(document["components"]["schemas"])]
    known = {name for shape, member, _ in everywhere for name in (member, f"{shape}.{member}")}
    described = {
        each if isinstance(meaning, str) else f"{each}.{name}"
        for each, meaning in MEMBERS.items()
        for name in ([each] if isinstance(meaning, str) else meaning)
    }
    assert described - known == set()

"""The conformance suite of the Model Context Protocol against the deployed gateway, for a revision of each era.

A scenario counts unless it is named here with the reason why it does not apply, and so does every check of it.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from directory.models import DirectoryConnection
from lab.gateway import LiveGateway
from tests.gateway.surfaces.agent.node import node_environment, node_modules
from tests.support.agents import make_agent
from tests.support.credential_proxy import credential_proxy

EXAMPLE = "calls a tool of the suite's own example server"
ASKS_BACK = "no tool asks the client or its user anything back"
EXAMPLE_PROMPT = "gets a prompt of the suite's own example server"
NO_RESOURCES = "the gateway offers no resources: what the directory holds is found by tools"
NO_TASKS = "an extension that is not offered: what takes long waits for a person, and has a change request"

NOT_APPLICABLE = {
    "logging-set-level": "the gateway logs for its operators, not for clients",
    "completion-complete": "the arguments of the prompts are free text, and there are no resources",
    **dict.fromkeys(
        (
            *("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource"),
            *("tools-call-mixed-content", "tools-call-with-logging", "tools-call-error", "tools-call-with-progress"),
            *("json-schema-2020-12", "http-custom-header-server-validation"),
            "input-required-result-ignore-extra-params",
        ),
        EXAMPLE,
    ),
    **dict.fromkeys(
        (
            *("tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults"),
            *("elicitation-sep1330-enums", "input-required-result-basic-elicitation"),
            *("input-required-result-basic-sampling", "input-required-result-basic-list-roots"),
            *("input-required-result-request-state", "input-required-result-multiple-input-requests"),
            *("input-required-result-multi-round", "input-required-result-non-tool-request"),
            *("input-required-result-result-type", "input-required-result-tampered-state"),
            "input-required-result-capability-check",
        ),
        ASKS_BACK,
    ),
    **dict.fromkeys(
        (
            *("resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read"),
            *("resources-subscribe", "resources-unsubscribe"),
        ),
        NO_RESOURCES,
    ),
    **dict.fromkeys(
        (
            *("prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"),
            "prompts-get-with-image",
        ),
        EXAMPLE_PROMPT,
    ),
    **dict.fromkeys(
        (
            *("tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal"),
            *("tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error"),
            "tasks-mrtr-composition",
        ),
        NO_TASKS,
    ),
}
NOT_APPLICABLE_CHECKS = {
    "sep-2575-server-rejects-undeclared-capability": EXAMPLE,
    "sep-2575-missing-capability-http-400": EXAMPLE,
    "sep-2575-http-server-no-independent-requests-on-stream": EXAMPLE,
    "sep-2575-server-no-log-without-loglevel": EXAMPLE,
    "sep-2549-resources-list-caching-hints": NO_RESOURCES,
    "sep-2549-resources-templates-list-caching-hints": NO_RESOURCES,
}
HAVE_TO_RUN = {
    "2025-11-25": {"server-initialize", "ping", "tools-list", "prompts-list", "dns-rebinding-protection"},
    "2026-07-28": {
        *("server-stateless", "tools-list", "prompts-list", "caching", "http-header-validation"),
        "dns-rebinding-protection",
    },
}


def checks(directory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The checks of each scenario, as the suite has written them."""
    for file in sorted(directory.glob("server-*/checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        for check in json.loads(file.read_text("utf-8")):
            yield scenario, check


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_it_conforms(
    revision: str,
    transactional_db: None,
    live_gateway: LiveGateway,
    connection: DirectoryConnection,
    tmp_path: Path,
) -> None:
    credential: dict[str, str] = {}
    with credential_proxy(live_gateway.base_url, credential) as url:
        agent = make_agent(connection, audience=f"{url}/mcp")
        credential["Authorization"] = f"Bearer {agent.token}"
        suite = node_modules() / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        ran = subprocess.run(
            ["node", suite, "server", "--url", f"{url}/mcp", "--requirements", revision, "--output-dir", tmp_path],
            env=node_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    found = list(checks(tmp_path))
    assert HAVE_TO_RUN[revision] <= {scenario for scenario, check in found if check["status"] == "SUCCESS"}, ran.stdout
    failed = [
        (scenario, check["id"], check.get("errorMessage"), check.get("details"))
        for scenario, check in found
        if check["status"] == "FAILURE"  # a WARNING is a recommendation, or says what a check could not try
        and scenario not in NOT_APPLICABLE
        and check["id"] not in NOT_APPLICABLE_CHECKS
    ]
    assert failed == []

"""The parts that differ between the documents: title, credentials, and a description of each group of operations.

Their texts are in `documents.toml`, with those of headers and problems.
"""

import tomllib
from pathlib import Path

from core.call import Surface
from core.operation import operations
from core.shapes import Json
from directory.shapes.kinds import RESOURCES

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
HEADERS, PROBLEMS = _TEXTS["headers"], _TEXTS["problems"]
TAGS = {**{resource: declared.about for resource, declared in RESOURCES.items()}, **_TEXTS["tags"]}
"""The description of each group of operations, by the first part of their names."""


def security_of(surface: Surface) -> list[dict[str, list[str]]]:
    """The credentials that a surface accepts."""
    return [{"session": []}] if surface is Surface.REST else [{"apiKey": []}, {"platformToken": []}]


def document_settings(surface: Surface) -> Json:
    """drf-spectacular's settings for one document; those for both are in `gateway.settings`."""
    schemes = {
        name: scheme
        for name, scheme in _TEXTS["credentials"].items()
        if (name == "session") == (surface is Surface.REST)
    }
    resources = {operation.resource for operation in operations(surface)} | (
        {"session"} if surface is Surface.REST else set()
    )
    tags = {resource: TAGS[resource] for resource in resources}
    hooks = []
    if surface is Surface.API:
        tags["webhooks"] = "What the gateway posts to webhook endpoints."
        hooks.append("gateway.surfaces.openapi.webhooks.add_webhooks")
    hooks.append("gateway.surfaces.openapi.examples.complete")
    return {
        "POSTPROCESSING_HOOKS": hooks,
        **{name.upper(): text for name, text in _TEXTS["surfaces"][surface].items()},
        "CONTACT": {"name": "Directory Management Gateway"},
        "LICENSE": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        "SERVERS": [{"url": "/", "description": "The gateway that serves this document."}],
        "TAGS": [{"name": name, "description": about} for name, about in sorted(tags.items())],
        "APPEND_COMPONENTS": {"securitySchemes": schemes},
    }

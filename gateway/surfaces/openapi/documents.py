"""The parts that differ between the documents: title, credentials, and a description of each group of operations."""

from typing import Any

from core.call import Surface
from core.operation import operations
from directory.shapes.kinds import RESOURCES

SECURITY_SCHEMES = {
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The key of an integration, `dgk_…`.",
    },
    "platformToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The short-lived token of a signed-in person, `dgp_…`, for tools run by hand.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sessionid",
        "description": "The session of a signed-in person. What changes something needs `X-CSRFToken` too.",
    },
}

_TITLES = {
    Surface.API: "Directory Management Gateway: machine surface",
    Surface.REST: "Directory Management Gateway: browser surface",
}
_DESCRIPTIONS = {
    Surface.API: "For integrations and tools: everything in the directory that a key or a person may read and change, "
    "with supervision by people and a complete operations log.",
    Surface.REST: "For the console: the same operations on the directory, and the gateway's own keys, roles, people, "
    "connections, decisions and log.",
}

TAGS = {
    **{resource: declared.about for resource, declared in RESOURCES.items()},
    "accounts": "Accounts by their state: disabled, locked out, expiring and so on.",
    "agent-clients": "The programs that people can connect as AI agents.",
    "agents": "What people let AI agents do for them: looked through, supervised, ended.",
    "api-keys": "API keys: issue, change, rotate, revoke, link to directories.",
    "change-requests": "Changes that wait for a person's decision.",
    "change-templates": "Named lists of changes for who joins, moves or leaves.",
    "deleted-objects": "Deleted objects and their restoration.",
    "directories": "Connections to directories.",
    "schema": "What the directory's schema says of attributes.",
    "health": "Whether the gateway and its parts work.",
    "me": "Who calls, with what rights.",
    "operations": "The operations log.",
    "permissions": "The permissions and what they mean.",
    "roles": "Roles: sets of permissions with their scopes.",
    "runs": "Runs over the accounts of an organizational unit.",
    "saved-filters": "Searches that are kept under a name.",
    "service-accounts": "Managed service accounts, and users that run services.",
    "session": "Signing in and out, and where a person is signed in.",
    "sign-in-providers": "Where people sign in by OpenID Connect.",
    "permission-groups": "Groups of permissions, given together to all who are in them.",
    "people": "The people of the gateway, who sign in and own keys.",
}
"""The description of each group of operations, by the first part of their names."""


def security_of(surface: Surface) -> list[dict[str, list[str]]]:
    """The credentials that a surface accepts."""
    return [{"session": []}] if surface is Surface.REST else [{"apiKey": []}, {"platformToken": []}]


def document_settings(surface: Surface) -> dict[str, Any]:
    """drf-spectacular's settings for one document; those for both are in `gateway.settings`."""
    schemes = {
        name: scheme for name, scheme in SECURITY_SCHEMES.items() if (name == "session") == (surface is Surface.REST)
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
        "TITLE": _TITLES[surface],
        "DESCRIPTION": _DESCRIPTIONS[surface],
        "CONTACT": {"name": "Directory Management Gateway"},
        "LICENSE": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        "SERVERS": [{"url": "/", "description": "The gateway that serves this document."}],
        "TAGS": [{"name": name, "description": about} for name, about in sorted(tags.items())],
        "APPEND_COMPONENTS": {"securitySchemes": schemes},
    }

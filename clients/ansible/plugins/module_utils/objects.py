"""Brings an object of the directory to the state that a task wants, by as few changes as that takes."""

from __future__ import annotations

from typing import Any

from ansible_collections.directory_gateway.ad.plugins.module_utils.gateway import Failure, Task

OBJECT = {
    "name": {"type": "str"},
    "parent": {"type": "str"},
    "identity": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "attributes": {"type": "dict", "default": {}},
}
OBJECT_RULES = {
    "required_one_of": [("identity", "name")],
    "required_together": [("name", "parent")],
    "supports_check_mode": True,
}
ACCOUNT = {
    "sam_account_name": {"type": "str"},
    "user_principal_name": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "enabled": {"type": "bool"},
    "expires_at": {"type": "str"},
    "password_never_expires": {"type": "bool", "no_log": False},
    "must_change_password": {"type": "bool", "no_log": False},
}


def manage(
    task: Task,
    resource: str,
    *,
    rdn: str = "CN",
    options: dict[str, Any] | None = None,
    creation: dict[str, Any] | None = None,
    update: dict[str, Any] | None = None,
) -> None:
    """Bring an object to the state that the task wants, and end the task.

    `options` are what the body has besides attributes, `creation` and `update` what only creating or updating takes.
    """
    common = options or {}
    try:
        _manage(task, resource, rdn, common | (creation or {}), common | (update or {}))
    except Failure as failure:
        task.fail(failure)


def _manage(task: Task, resource: str, rdn: str, creation: dict[str, Any], update: dict[str, Any]) -> None:
    given = task.module.params
    name, parent = given["name"], given["parent"]
    identity = given["identity"] or f"{rdn}={_escaped(name)},{parent}"
    found = task.find(resource, identity)
    path = f"/api/ad/{resource}"
    if given["state"] == "absent":
        if found is not None:
            task.change(f"{resource}.delete", "DELETE", f"{path}/{found['id']}", target=found)
        task.end()
    values = {key: value for key, value in given["attributes"].items() if value not in (None, "", [])}
    replace = {
        key: [str(each) for each in (value if isinstance(value, list) else [value])] for key, value in values.items()
    }
    if found is None:
        if name is None:
            raise Failure(f"There is no {identity}; to make it, give its name and parent.")
        body = {"name": name, "parent": parent, "replace": replace, **creation}
        made = task.change(f"{resource}.create", "POST", path, body=body)
        task.end(object=task.find(resource, f"{rdn}={_escaped(name)},{parent}") if made else None)
        return
    place = f"{path}/{found['id']}"
    body = {"replace": replace, "clear": sorted(set(given["attributes"]) - set(replace)), **update}
    made = [task.change(f"{resource}.update", "PATCH", place, body=body, target=found)]
    # Each change gives the object another version: only the first was made up for the one that was read.
    target = {"id": found["id"]}
    own_name, own_parent = _split(found["distinguishedName"])
    if parent and own_parent.casefold() != parent.casefold():
        made.append(task.change(f"{resource}.move", "POST", f"{place}/move", body={"parent": parent}, target=target))
    if name and own_name != f"{rdn}={_escaped(name)}":
        made.append(task.change(f"{resource}.rename", "POST", f"{place}/rename", body={"name": name}, target=target))
    if (enabled := given.get("enabled")) is not None:
        action = "enable" if enabled else "disable"
        made.append(task.change(f"{resource}.{action}", "POST", f"{place}/{action}", target=target))
    task.end(object=task.gateway.get(place) if any(made) else found)


def _escaped(name: str) -> str:
    """A name as a value in a distinguished name (RFC 4514 section 2.4)."""
    escaped = "".join(f"\\{each}" if each in ',+"\\<>;=' else each for each in name)
    if escaped.startswith(("#", " ")):
        escaped = f"\\{escaped}"
    return f"{escaped[:-1]}\\ " if escaped.endswith(" ") and not escaped.endswith("\\ ") else escaped


def _split(distinguished_name: str) -> tuple[str, str]:
    """The first part of a distinguished name, and its parent."""
    is_escaped = False
    for at, each in enumerate(distinguished_name):
        if each == "," and not is_escaped:
            return distinguished_name[:at], distinguished_name[at + 1 :]
        is_escaped = each == "\\" and not is_escaped
    return distinguished_name, ""


def manage_account(task: Task, resource: str) -> None:
    """The same for an account, with the options of accounts."""
    given = task.module.params
    account = {
        "expiresAt": given["expires_at"],
        "passwordNeverExpires": given["password_never_expires"],
        "mustChangePassword": given["must_change_password"],
    }
    account = without_none(account)
    creation = {
        "samAccountName": given["sam_account_name"],
        "userPrincipalName": given["user_principal_name"],
        "password": given["password"],
        "enabled": given["enabled"],
    }
    options = {"account": account} if account else {}
    manage(task, resource, options=options, creation=without_none(creation))


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

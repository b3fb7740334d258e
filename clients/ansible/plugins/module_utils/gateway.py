"""What the modules share: the connection of dirgate, changes that are made only where they change something."""

from __future__ import annotations

import time
import traceback
from typing import Any
from uuid import uuid4

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from dirgate.connection import Gateway, Settings, check_address, header_text, load_settings
    from dirgate.failures import Failure, Refused
    from dirgate.naming import NoSuchObject, find_id
    from dirgate.times import duration, moment
except ImportError:
    DIRGATE_ERROR: str | None = traceback.format_exc()
else:
    DIRGATE_ERROR = None

COMMON = {
    "gateway_url": {"type": "str"},
    "gateway_key": {"type": "str", "no_log": True},
    "client_id": {"type": "str"},
    "ca_file": {"type": "path"},
    "reason": {"type": "str"},
    "wait": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 3600},
}
_WAIT_SECONDS = 30
_UNDECIDED = ("pending", "approved", "applying", "unknown")


class Task:
    """One task: its connection, what it has changed, and what waits for a person."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.changed = False
        self.pending: list[str] = []
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        if DIRGATE_ERROR is not None:
            module.fail_json(msg=missing_required_lib("dirgate"), exception=DIRGATE_ERROR)
        given = module.params
        try:
            self.gateway = Gateway(_settings(given))
        except Failure as failure:
            self.fail(failure)

    def fail(self, failure: Exception) -> None:
        """End the task with the gateway's refusal and its code."""
        self.module.fail_json(msg=str(failure), code=getattr(failure, "code", None), **self.results())

    def results(self) -> dict[str, Any]:
        found: dict[str, Any] = {"changed": self.changed}
        if self.pending:
            found["pending_request"] = self.pending[-1]
            found["pending_requests"] = self.pending
        if self.before or self.after:
            found["diff"] = {"before": self.before, "after": self.after}
        return found

    def end(self, **more: Any) -> None:
        self.module.exit_json(**self.results(), **more)

    def find(self, resource: str, given: str) -> dict[str, Any] | None:
        """The object of that id, account name, UPN, name or distinguished name. Raises Failure if there are several."""
        try:
            found: dict[str, Any] = self.gateway.get(f"/api/ad/{resource}/{find_id(self.gateway, resource, given)}")
        except NoSuchObject:
            return None
        except Refused as refusal:
            if refusal.code != "AD.Object.NotFound":
                raise
            return None
        return found

    def find_ids(self, resource: str, given: list[str]) -> list[str]:
        return [find_id(self.gateway, resource, each) for each in given]

    def change(
        self, operation: str, method: str, path: str, *, body: Any = None, target: dict[str, Any] | None = None
    ) -> bool:
        """Make a change if it changes something; return whether it was made now, rather than waits or was only shown.

        The gateway says first what it would change. `target` is the object that it was made up for, as it was read.
        """
        headers = {}
        if self.module.params.get("for"):
            headers["X-Revert-After"] = duration(self.module.params["for"])
        if self.module.params.get("until"):
            headers["X-Revert-At"] = moment(self.module.params["until"])
        if self.module.params["reason"]:
            headers["X-Change-Reason"] = header_text(self.module.params["reason"])
        if target is not None and target.get("version"):
            headers["If-Match"] = f'"{target["version"]}"'
        shown = self.gateway.send(method, path, query={"dryRun": "true"}, headers=headers, body=body).document
        if not shown["changes"]:
            return False
        self.changed = True
        for each in shown["changes"]:
            self.before[each["attribute"]] = each["before"]
            self.after[each["attribute"]] = each["after"]
        if self.module.check_mode:
            return False
        waiting = self._find_waiting(operation, target, shown["changes"]) if shown["wouldQueue"] else None
        if waiting is None:
            headers["Idempotency-Key"] = str(uuid4())
            answer = self.gateway.send(method, path, headers=headers, body=body)
            if answer.status != 202:
                return True
            waiting = answer.document["changeRequest"]["id"]
        if self.module.params["wait"]:
            self.wait_for(waiting)
            return True
        self.pending.append(waiting)
        return False

    def _find_waiting(self, operation: str, target: dict[str, Any] | None, changes: list[dict[str, Any]]) -> str | None:
        """The request that waits for this very change since an earlier run of the playbook."""
        query = {"status": "pending", "operation": operation, "pageSize": 1000}
        if target is not None:
            query["target"] = target["id"]
        for each in self.gateway.get("/api/change-requests", **query)["items"]:
            waiting = [(item["attribute"], item["current"], item["proposed"]) for item in each["changes"]]
            if waiting == [(item["attribute"], item["before"], item["after"]) for item in changes]:
                return str(each["id"])
        return None

    def wait_for(self, request: str) -> dict[str, Any]:
        """Wait until a held change has been decided and made. Raises Failure if it was not made."""
        until = time.monotonic() + self.module.params["wait_timeout"]
        while True:
            left = until - time.monotonic()
            found: dict[str, Any] = self.gateway.get(
                f"/api/change-requests/{request}", wait=max(0, min(_WAIT_SECONDS, int(left)))
            )
            if found["status"] == "applied":
                return found
            if found["status"] not in _UNDECIDED:
                problem = found.get("problem") or {}
                said = found.get("comment") or problem.get("detail") or problem.get("title") or "no reason is given"
                raise Failure(f"The change request {request} is {found['status']}: {said}")
            if left <= 0:
                raise Failure(f"Nobody has decided the change request {request} within the time.")


def _settings(given: dict[str, Any]) -> Settings:
    if not (given["gateway_url"] and given["gateway_key"]):
        kept = load_settings(url=given["gateway_url"], client_id=given["client_id"])
        return Settings(kept.url, given["gateway_key"] or kept.key, kept.client_id, given["ca_file"] or kept.ca_file)
    return Settings(check_address(given["gateway_url"]), given["gateway_key"], given["client_id"], given["ca_file"])

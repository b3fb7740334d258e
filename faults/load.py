"""The mixed load: clients that change their areas of the directory, and a person who approves.

Every value written is unique, so that the checker can attribute each change.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from faults.client import Caller, Client
from faults.diary import ABSENT, NO, YES, Effect, Request
from faults.lending import Lender
from faults.world import ATTRIBUTES, Area
from lab.http import Answer, LoadBalancer

PAUSE = (0.0, 0.25)
"""Seconds between two requests of a client; this is no load test."""

BATCH = 8
MAX_CREATED = 12
"""A client with this many objects deletes one instead of creating another."""


class NotNow(Exception):
    """An action has to wait for the result of earlier requests for the same objects."""


class LoadedClient(Client):
    """One client, at work until it is told to finish. It asks for changes of supervised objects by its careful key."""

    def __init__(self, number: int, balancer: LoadBalancer, seed: int, area: Area, accounts: dict[str, Any]) -> None:
        super().__init__(f"client{number}", balancer, seed, area.facts)
        self.failure: BaseException | None = None
        self._area = area
        self._key, self._careful_key = accounts["keys"][number], accounts["careful"][number]
        self._is_finishing = False
        self._numbers = 0
        self._created: list[str] = []
        self._actions: dict[Callable[[], Request], int] = {
            self._update: 34, self._create: 12, self._delete_user: 4, self._switch: 12, self._join_or_leave: 12,
            self._reset_password: 6, self._rename: 6, self._move: 6, self._run_accounts: 8, self._update_many: 6,
            self._create_many: 2, partial(self._update, [area.shared_user], [area.shared_attribute]): 6,
            partial(self._update, area.supervised): 8, partial(self._switch, area.supervised): 3,
        }  # fmt: skip
        self._remaining: list[Callable[[], Request]] = []
        self.repeat_everything()

    def repeat_everything(self) -> None:
        """Perform every action once more."""
        self._remaining = self._choices.sample(list(self._actions), len(self._actions))

    @property
    def has_done_everything(self) -> bool:
        """Whether it has performed every action."""
        return not self._remaining

    @property
    def is_finished(self) -> bool:
        """Whether it has performed every action and knows all results."""
        return self._is_finishing and self.has_done_everything and not self.unfinished

    def finish(self) -> None:
        """Send no new requests once every action was performed."""
        self._is_finishing = True

    def run(self) -> None:
        try:
            while not self._ended.wait(self._choices.uniform(*PAUSE)):
                self.resume_unfinished()
                if self._remaining or not self._is_finishing:
                    self._do_something()
        except BaseException as error:
            self.failure = error
            raise

    def _do_something(self) -> None:
        """Perform a remaining action that is possible now, or else a random one, by the weights."""
        anything = self._choices.choices(list(self._actions), list(self._actions.values()))
        for action in (*self._remaining, *anything):
            with suppress(NotNow):
                request = action()
                break
        else:
            return
        if action in self._remaining:
            self._remaining.remove(action)
        self.complete(request)
        if request.operation.endswith(".create"):
            self._created += [each.key[1] for each in request.effects if each.outcome == "done"]

    def _request(self, operation: str, method: str, path: str, body: Any, *effects: Effect) -> Request:
        is_careful = any(effect.key[1] in self._area.supervised for effect in effects)
        credential = self._careful_key if is_careful else self._key
        return Request(self._unique(), operation, method, f"/api/ad/{path}", body, list(effects), credential)

    def _act(self, action: str, user: str, body: Any, kind: str, value: str) -> Request:
        """A request of an action on a user, which gives the user's fact of this kind a value."""
        return self._request(f"users.{action}", "POST", f"users/{user}/{action}", body, Effect((kind, user), value))

    def _unique(self) -> str:
        self._numbers += 1
        return f"{self.name}-{self._numbers}"

    def _free(self, objects: Sequence[str]) -> list[str]:
        """The objects without unfinished requests; raises NotNow if there are none."""
        busy = self.busy
        free = [name for name in objects if name not in busy]
        if not free:
            raise NotNow
        return free

    def _one_of(self, objects: Sequence[str]) -> str:
        return self._choices.choice(self._free(objects))

    def _fact(self, *key: str) -> str:
        return self.diary.facts.get(key, ABSENT)

    def _switched(self, user: str) -> tuple[str, str]:
        """The action that enables or disables a user, whichever changes something, and what is then true."""
        return ("disable", NO) if self._fact("enabled", user) == YES else ("enable", YES)

    def _update(self, users: Sequence[str] = (), attributes: Sequence[str] = ATTRIBUTES) -> Request:
        """Replace an attribute, and sometimes clear another one, of these users or of those who are not supervised."""
        user = self._one_of(users or [*self._area.people, *self._created])
        value = self._unique()
        first, *others = self._choices.sample(attributes, len(attributes))
        effects = [Effect((first, user), value)]
        cleared = [name for name in others[:1] if self._choices.random() < 0.2 and self._fact(name, user)]
        effects += [Effect((name, user), ABSENT) for name in cleared]
        body = {"replace": {first: value}, "clear": cleared}
        return self._request("users.update", "PATCH", f"users/{user}", body, *effects)

    def _switch(self, users: Sequence[str] = ()) -> Request:
        user = self._one_of(users or self._area.people)
        action, value = self._switched(user)
        return self._act(action, user, None, "enabled", value)

    def _new_user(self, index: int | None = None) -> tuple[dict[str, str], Effect]:
        name, unit = self._unique(), self._choices.choice(self._area.units)
        body = {"name": name, "parent": unit, "samAccountName": name}
        return body, Effect(("exists", f"CN={name},{unit}"), YES, index)

    def _create(self) -> Request:
        if len(self._created) > MAX_CREATED:
            return self._delete_user()
        body, wanted = self._new_user()
        return self._request("users.create", "POST", "users", body, wanted)

    def _create_many(self) -> Request:
        if len(self._created) > MAX_CREATED:
            raise NotNow
        items, wanted = zip(*map(self._new_user, range(3)), strict=True)
        return self._request("users.create", "POST", "users/batch/create", {"items": items}, *wanted)

    def _delete_user(self) -> Request:
        user = self._one_of(self._created)
        self._created.remove(user)
        return self._request("users.delete", "DELETE", f"users/{user}", None, Effect(("exists", user), NO))

    def _join_or_leave(self) -> Request:
        group = self._one_of([self._choices.choice([*self._area.groups, self._area.shared_group])])
        users = self._free(self._area.people)
        body: dict[str, list[str]] = {"add": [], "remove": []}
        effects = []
        for user in self._choices.sample(users, min(2, len(users))):
            leaves = self._fact("member", group, user) == YES
            body["remove" if leaves else "add"].append(user)
            effects.append(Effect(("member", group, user), NO if leaves else YES))
        return self._request("groups.change-members", "POST", f"groups/{group}/members", body, *effects)

    def _reset_password(self) -> Request:
        password = f"Secret-{self._unique()}"
        user = self._one_of(self._area.keyholders)
        return self._act("reset-password", user, {"newPassword": password}, "password", password)

    def _rename(self) -> Request:
        name = self._unique()
        return self._act("rename", self._one_of(self._area.people), {"name": name}, "name", name)

    def _move(self) -> Request:
        user = self._one_of(self._area.people)
        north, south = self._area.units
        unit = south if self._fact("unit", user) == north else north
        return self._act("move", user, {"parent": unit}, "unit", unit)

    def _run_accounts(self) -> Request:
        accounts = self._area.run_accounts
        if self.busy & set(accounts):
            raise NotNow
        action, value = self._switched(accounts[0])
        effects = (Effect(("enabled", account), value) for account in accounts)
        path = f"organization-units/{self._area.run_unit}/accounts/{action}"
        return self._request(f"organization-units.{action}-accounts", "POST", path, {"kinds": ["user"]}, *effects)

    def _update_many(self) -> Request:
        free, name = self._free(self._area.listed), self._choices.choice(ATTRIBUTES)
        items, effects = [], []
        for index, user in enumerate(self._choices.sample(free, min(BATCH, len(free)))):
            value = self._unique()
            items.append({"id": user, "replace": {name: value}})
            effects.append(Effect((name, user), value, index))
        return self._request("users.update", "POST", "users/batch/update", {"items": items}, *effects)


class Approver(Caller):
    """A person who approves pending changes and rejects one in ten. `decisions` are those that were confirmed.

    Requests for the objects to `leave` are left to somebody else. Those for groups of lenders are all approved at once,
    when all of them have had their burst.
    """

    def __init__(
        self,
        balancer: LoadBalancer,
        seed: int,
        *,
        login: dict[str, str],
        leave: Collection[str],
        lenders: Sequence[Lender],
    ) -> None:
        super().__init__("approver", balancer, seed)
        self.decisions: dict[str, str] = {}
        self._leave, self._lenders = leave, lenders
        self._login = login
        self._headers: dict[str, str] = {}

    def run(self) -> None:
        while not self._ended.wait(0.5):
            if not self._headers:
                answer = self._send("POST", "/rest/session", self._login)
                self._headers = answer.session if answer.status == 200 else {}
                continue
            waiting = self._send("GET", "/rest/change-requests?status=pending&pageSize=1000")
            if waiting.status in (401, 403):
                self._headers = {}
            lent, groups = [], {lender.group for lender in self._lenders}
            for request in waiting.body["items"] if waiting.status == 200 else ():
                if request["target"]["id"] in groups:
                    lent.append({"id": request["id"], "digest": request["digest"]})
                elif request["target"]["id"] not in self._leave:
                    self._decide(request)
            if lent and all(lender.has_had_its_burst for lender in self._lenders):
                self._approve_at_once(lent)

    def _send(self, method: str, path: str, body: Any = None) -> Answer:
        """One exchange in the person's session."""
        return self._http.send(method, path, body, self._headers)

    def _decide(self, request: dict[str, Any]) -> None:
        action = "reject" if self._choices.random() < 0.1 else "approve"
        body = {"comment": "Not now."} if action == "reject" else {"digest": request["digest"]}
        if self._send("POST", f"/rest/change-requests/{request['id']}/{action}", body).status == 200:
            self.decisions[request["id"]] = action

    def _approve_at_once(self, requests: Sequence[dict[str, Any]]) -> None:
        body = {"decision": "approve", "changeRequests": requests}
        answer = self._send("POST", "/rest/change-requests/decide", body)
        results = answer.body["results"] if answer.status == 200 else ()
        self.decisions |= {each["id"]: "approve" for each in results if each["problem"] is None}

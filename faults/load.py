"""The mixed load: clients that change their areas of the directory, and a person who approves.

Every value written is unique, so that the checker can attribute each change.
"""

import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from faults.client import Client, Transport, effect
from faults.diary import ABSENT, NO, YES, Diary, Effect, Request
from faults.world import ATTRIBUTES, Area
from lab.http import Answer

PAUSE = (0.0, 0.25)
"""Seconds between two requests of a client; this is no load test."""

BATCH = 8
MAX_CREATED = 12
"""A client with this many objects deletes one instead of creating another."""


class NotNow(Exception):
    """An action has to wait for the result of earlier requests for the same objects."""


class LoadedClient(threading.Thread):
    """One client with an API key, at work until it is told to finish."""

    def __init__(
        self, name: str, area: Area, http: Transport, *, key: str, careful_key: str, choices: random.Random
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.diary = Diary(name, initial=dict(area.facts), facts=dict(area.facts))
        self.failure: BaseException | None = None
        self._area = area
        self._key = key
        self._careful_key = careful_key
        self._choices = choices
        self._client = Client(self.diary, http, choices)
        self._finishing = threading.Event()
        self._ended = threading.Event()
        self._numbers = 0
        self._created: list[str] = []
        self._actions: dict[Callable[[], Request], int] = {
            self._update: 34, self._create: 12, self._delete_user: 4, self._switch: 12, self._join_or_leave: 12,
            self._reset_password: 6, self._rename: 6, self._move: 6, self._run_accounts: 8, self._update_many: 6,
            self._create_many: 2, self._update_supervised: 8, self._switch_supervised: 3, self._update_shared: 6,
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
        return self._finishing.is_set() and self.has_done_everything and not self._client.unfinished

    def finish(self) -> None:
        """Send no new requests once every action was performed."""
        self._finishing.set()

    def end(self) -> None:
        """Stop, and give up unfinished requests."""
        self._ended.set()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self._client.resume_unfinished()
                if self._remaining or not self._finishing.is_set():
                    self._do_something()
                time.sleep(self._choices.uniform(*PAUSE))
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
        self._client.complete(request)
        if request.operation.endswith(".create"):
            self._created += [each.key[1] for each in request.effects if each.outcome == "done"]

    def _request(
        self, operation: str, method: str, path: str, body: Any, *effects: Effect, careful: bool = False
    ) -> Request:
        credential = self._careful_key if careful else self._key
        return Request(self._unique(), operation, method, f"/api/ad/{path}", body, list(effects), credential)

    def _unique(self) -> str:
        self._numbers += 1
        return f"{self.name}-{self._numbers}"

    def _free(self, objects: Sequence[str]) -> list[str]:
        """The objects without unfinished requests; raises NotNow if there are none."""
        busy = self._client.busy
        free = [name for name in objects if name not in busy]
        if not free:
            raise NotNow
        return free

    def _one_of(self, objects: Sequence[str]) -> str:
        return self._choices.choice(self._free(objects))

    def _fact(self, *key: str) -> str:
        return self.diary.facts.get(key, ABSENT)

    def _update(self, user: str | None = None, *, careful: bool = False) -> Request:
        user = user or self._one_of([*self._area.people, *self._created])
        value = self._unique()
        first, second = self._choices.sample(ATTRIBUTES, 2)
        effects = [effect(first, user, value=value)]
        body: dict[str, Any] = {"replace": {first: value}}
        if self._choices.random() < 0.2 and self._fact(second, user):
            effects.append(effect(second, user, value=ABSENT))
            body["clear"] = [second]
        return self._request("users.update", "PATCH", f"users/{user}", body, *effects, careful=careful)

    def _update_shared(self) -> Request:
        name, user, value = self._area.shared_attribute, self._one_of([self._area.shared_user]), self._unique()
        body = {"replace": {name: value}}
        return self._request("users.update", "PATCH", f"users/{user}", body, effect(name, user, value=value))

    def _update_supervised(self) -> Request:
        return self._update(self._one_of(self._area.supervised), careful=True)

    def _switch_supervised(self) -> Request:
        return self._switch(self._one_of(self._area.supervised), careful=True)

    def _switch(self, user: str | None = None, *, careful: bool = False) -> Request:
        user = user or self._one_of(self._area.people)
        action, value = ("disable", NO) if self._fact("enabled", user) == YES else ("enable", YES)
        wanted = effect("enabled", user, value=value)
        return self._request(f"users.{action}", "POST", f"users/{user}/{action}", None, wanted, careful=careful)

    def _new_user(self, index: int | None = None) -> tuple[dict[str, str], Effect]:
        name, unit = self._unique(), self._choices.choice(self._area.units)
        body = {"name": name, "parent": unit, "samAccountName": name.replace("client", "c")}
        return body, effect("exists", f"CN={name},{unit}", value=YES, index=index)

    def _create(self) -> Request:
        if len(self._created) > MAX_CREATED:
            return self._delete_user()
        body, wanted = self._new_user()
        return self._request("users.create", "POST", "users", body, wanted)

    def _create_many(self) -> Request:
        if len(self._created) > MAX_CREATED:
            raise NotNow
        items = [self._new_user(index) for index in range(3)]
        body = {"items": [item for item, _ in items]}
        return self._request("users.create", "POST", "users/batch/create", body, *(wanted for _, wanted in items))

    def _delete_user(self) -> Request:
        user = self._one_of(self._created)
        self._created.remove(user)
        return self._request("users.delete", "DELETE", f"users/{user}", None, effect("exists", user, value=NO))

    def _join_or_leave(self) -> Request:
        group = self._choices.choice([*self._area.groups, self._area.shared_group])
        users, (group,) = self._free(self._area.people), self._free([group])
        some = self._choices.sample(users, min(2, len(users)))
        wanted = {user: NO if self._fact("member", group, user) == YES else YES for user in some}
        body = {
            "add": [user for user, value in wanted.items() if value == YES],
            "remove": [user for user, value in wanted.items() if value == NO],
        }
        effects = (effect("member", group, user, value=value) for user, value in wanted.items())
        return self._request("groups.change-members", "POST", f"groups/{group}/members", body, *effects)

    def _reset_password(self) -> Request:
        user = self._one_of(self._area.keyholders)
        password = f"Secret-{self._unique()}"
        wanted = effect("password", user, value=password)
        body = {"newPassword": password}
        return self._request("users.reset-password", "POST", f"users/{user}/reset-password", body, wanted)

    def _rename(self) -> Request:
        user = self._one_of(self._area.people)
        name = self._unique()
        wanted = effect("name", user, value=name)
        return self._request("users.rename", "POST", f"users/{user}/rename", {"name": name}, wanted)

    def _move(self) -> Request:
        user = self._one_of(self._area.people)
        north, south = self._area.units
        unit = south if self._fact("unit", user) == north else north
        return self._request(
            "users.move", "POST", f"users/{user}/move", {"parent": unit}, effect("unit", user, value=unit)
        )

    def _run_accounts(self) -> Request:
        accounts = self._area.run_accounts
        if self._client.busy & set(accounts):
            raise NotNow
        action, value = ("disable", NO) if self._fact("enabled", accounts[0]) == YES else ("enable", YES)
        effects = (effect("enabled", account, value=value) for account in accounts)
        path = f"organization-units/{self._area.run_unit}/accounts/{action}"
        return self._request(f"organization-units.{action}-accounts", "POST", path, {"kinds": ["user"]}, *effects)

    def _update_many(self) -> Request:
        free = self._free(self._area.listed)
        name, some = self._choices.choice(ATTRIBUTES), self._choices.sample(free, min(BATCH, len(free)))
        values = [self._unique() for _ in some]
        items = [{"id": user, "replace": {name: value}} for user, value in zip(some, values, strict=True)]
        effects = (
            effect(name, user, value=value, index=index)
            for index, (user, value) in enumerate(zip(some, values, strict=True))
        )
        return self._request("users.update", "POST", "users/batch/update", {"items": items}, *effects)


class Approver(threading.Thread):
    """A person who approves pending changes and rejects one in ten. `decisions` are those that were confirmed.

    Requests for the objects to `leave` are left to somebody else.
    """

    def __init__(
        self,
        http: Transport,
        *,
        username: str,
        password: str,
        choices: random.Random,
        leave: Collection[str] = (),
    ) -> None:
        super().__init__(name="approver", daemon=True)
        self.decisions: dict[str, str] = {}
        self._http = http
        self._leave = leave
        self._login = {"username": username, "password": password}
        self._choices = choices
        self._headers: dict[str, str] = {}
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop deciding."""
        self._ended.set()

    def run(self) -> None:
        while not self._ended.wait(0.5):
            if not self._headers:
                self._sign_in()
                continue
            waiting = self.send("GET", "/rest/change-requests?status=pending&pageSize=1000")
            if waiting.status in (401, 403):
                self._headers = {}
            if waiting.status == 200:
                self.decide_all(waiting.body["items"])

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        """One exchange in the person's session."""
        return self._http.send(method, path, body, self._headers)

    def decide_all(self, waiting: Sequence[dict[str, Any]]) -> None:
        """Decide what waits, as far as it is this person's."""
        for request in waiting:
            if request["target"]["id"] not in self._leave:
                self._decide(request)

    def _sign_in(self) -> None:
        answer = self.send("POST", "/rest/session", self._login)
        if answer.status == 200:
            self._headers = answer.session

    def _decide(self, request: dict[str, Any]) -> None:
        action = "reject" if self._choices.random() < 0.1 else "approve"
        body = {"comment": "Not now."} if action == "reject" else {"digest": request["digest"]}
        if self.send("POST", f"/rest/change-requests/{request['id']}/{action}", body).status == 200:
            self.decisions[request["id"]] = action

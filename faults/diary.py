"""What a client asked for and what it was told: the side of the story that the checker compares with the directory."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

Key = tuple[str, ...]
"""One fact about the directory: ("title", guid), ("enabled", guid), ("name", guid), ("unit", guid), ("password", guid),
("member", group, user), ("exists", guid), or ("exists", dn) of what is still to be created."""

YES, NO, ABSENT = "yes", "no", ""


class Outcome(StrEnum):
    """What the client knows of a change. `open`: nobody told it so far, and perhaps nobody will."""

    DONE = "done"
    REFUSED = "refused"
    WAITING = "waiting"
    OPEN = "open"


@dataclass
class Effect:
    """A fact that a request makes true; `index` is the item's in a batch.

    `was_so` says that the client was told that there was nothing to change: then no record tells of it.
    """

    key: Key
    value: str
    index: int | None = None
    outcome: Outcome = Outcome.OPEN
    was_so: bool = False

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects it is about."""
        return self.key[1:]


@dataclass
class Attempt:
    """One sending of a request; `status` is 0 when the connection was lost."""

    at: float
    seconds: float
    status: int
    code: str | None


@dataclass
class Request:
    """One thing a client wants, under one idempotency key, however often it must be sent.

    `change_request` and `run` are what a 202 named. `is_over` says that the client sends it no more.
    """

    id: str
    operation: str
    method: str
    path: str
    body: Any
    effects: list[Effect]
    credential: str = field(repr=False)
    attempts: list[Attempt] = field(default_factory=list)
    change_request: str | None = None
    run: str | None = None
    is_over: bool = False
    retry_at: float = 0.0

    @property
    def is_ambiguous(self) -> bool:
        """Whether an attempt may have changed something without the client being told."""
        return any(not 0 < attempt.status < 500 for attempt in self.attempts)

    @property
    def objects(self) -> set[str]:
        """The objects it is about."""
        return {name for effect in self.effects for name in effect.objects}

    @property
    def outcomes(self) -> set[Outcome]:
        """What became of its effects."""
        return {effect.outcome for effect in self.effects}

    def end(self, outcome: Outcome) -> None:
        """The same end for all of its effects."""
        for effect in self.effects:
            effect.outcome = outcome
        self.is_over = True


@dataclass
class Diary:
    """One client's requests, in order. `initial` is what it found, `facts` what it knows to be true now."""

    client: str
    initial: dict[Key, str] = field(default_factory=dict)
    facts: dict[Key, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def learn(self, request: Request) -> None:
        """Take over what a finished request made true."""
        for effect in request.effects:
            if effect.outcome is Outcome.DONE:
                self.facts[effect.key] = effect.value

    def open_values(self) -> dict[Key, set[str]]:
        """What may be true as well, since nobody told the client what became of it."""
        found: dict[Key, set[str]] = {}
        for request in self.requests:
            for effect in request.effects:
                if effect.outcome in (Outcome.OPEN, Outcome.WAITING):
                    found.setdefault(effect.key, set()).add(effect.value)
        return found

    def write(self, file: Path) -> None:
        """Keep it for a person who looks for the cause of something; the credentials are of no use by then."""
        with file.open("w") as lines:
            for request in self.requests:
                lines.write(json.dumps(asdict(request)) + "\n")

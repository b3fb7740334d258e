"""What a client requested and what it was told, for the checker to compare with the directory."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Key = tuple[str, ...]
"""One fact about the directory: ("title", guid), ("enabled", guid), ("name", guid), ("unit", guid), ("password", guid),
("member", group, user), ("exists", guid), or ("exists", dn) of what is still to be created."""

YES, NO, ABSENT = "yes", "no", ""


class Outcome(StrEnum):
    """What the client knows of a change. `open`: nothing yet, and perhaps never anything."""

    DONE = "done"
    REFUSED = "refused"
    WAITING = "waiting"
    OPEN = "open"


@dataclass
class Effect:
    """A fact that a request makes true; `index` is that of the item in a batch.

    `was_unchanged`: the client was told that there was nothing to change, so there is no record of it.
    """

    key: Key
    value: str
    index: int | None = None
    outcome: Outcome = Outcome.OPEN
    was_unchanged: bool = False

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects it is about."""
        return self.key[1:]


@dataclass
class Attempt:
    """One attempt of a request; `status` is 0 if the connection was lost."""

    at: float
    seconds: float
    status: int
    code: str | None


@dataclass
class Request:
    """A request under one idempotency key, with all its attempts.

    `progress` is the path of the change request or the run that a 202 named. `is_over`: the client no longer sends it.
    """

    id: str
    operation: str
    method: str
    path: str
    body: Any
    effects: list[Effect]
    credential: str = field(repr=False)
    attempts: list[Attempt] = field(default_factory=list)
    progress: str = ""
    is_over: bool = False
    retry_at: float = 0.0

    @property
    def is_ambiguous(self) -> bool:
        """Whether an attempt may have changed something without telling the client."""
        return any(not 0 < attempt.status < 500 for attempt in self.attempts)

    @property
    def objects(self) -> set[str]:
        """The objects it is about."""
        return {name for effect in self.effects for name in effect.objects}

    @property
    def outcomes(self) -> set[Outcome]:
        """The outcomes of its effects."""
        return {effect.outcome for effect in self.effects}

    def end(self, outcome: Outcome) -> None:
        """End it with the same outcome for all its effects."""
        for effect in self.effects:
            effect.outcome = outcome
        self.is_over = True


@dataclass
class Diary:
    """A client's requests, in order. `initial` are the facts at the start, `facts` those that it knows now."""

    client: str
    initial: dict[Key, str] = field(default_factory=dict)
    facts: dict[Key, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def add_facts(self, request: Request) -> None:
        """Add the facts that a finished request made true."""
        for effect in request.effects:
            if effect.outcome is Outcome.DONE:
                self.facts[effect.key] = effect.value

    def possible_values(self) -> dict[Key, set[str]]:
        """The values that may be true: the known one, and those of requests whose outcome the client does not know."""
        found = {key: {value} for key, value in self.facts.items()}
        for request in self.requests:
            for effect in request.effects:
                if effect.outcome in (Outcome.OPEN, Outcome.WAITING):
                    found.setdefault(effect.key, set()).add(effect.value)
        return found

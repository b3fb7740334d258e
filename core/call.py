"""Who calls, with which credential, for which directory: the first argument of every operation.

A call is a value: a surface makes it once from what `keys` knows, and nothing changes it on the way. The answer may be
a stream, a whole list in parts as they come, which `gateway.surfaces.rendering` writes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from core.errors import GatewayError


class Surface(StrEnum):
    """The way in. `worker` applies approved changes and runs."""

    API = "api"
    REST = "rest"
    AGENT = "agent"
    WORKER = "worker"


StreamPart = Sequence[Mapping[str, Any]]


class StreamFormat(StrEnum):
    """How the records of a stream are written, by media type."""

    NDJSON = "application/x-ndjson"
    CSV = "text/csv"


def _nobody(_: GatewayError) -> None:
    pass


@dataclass(slots=True)
class RecordStream:
    """A list that is sent while it is still being read. Whoever takes one iterates `parts` to the end or closes it.

    `attributes` are the names in the records' member `attributes`, in order; None if they are not known before the end.
    `absent` are members that are null in every record. `failed` is called with the error that broke the stream.
    """

    parts: Iterator[StreamPart]
    form: StreamFormat
    attributes: tuple[str, ...] | None = None
    absent: frozenset[str] = frozenset()
    failed: Callable[[GatewayError], None] = _nobody


Scopes = tuple[tuple[UUID, ...], ...]
"""Where a caller may work: objectGUIDs of base objects. Each tuple must have a base above the object that is touched.

One tuple is that of the key's role, another that of its owner. Without any the caller is not confined.
"""


class CredentialKind(StrEnum):
    API_KEY = "apiKey"
    PLATFORM_TOKEN = "platformToken"  # noqa: S105 - a kind's name
    SESSION = "session"
    AGENT_TOKEN = "agentToken"  # noqa: S105 - a kind's name
    CALENDAR = "calendar"
    """The secret address of a person's calendar, which only reads what is scheduled."""
    GATEWAY = "gateway"
    """No credential: the gateway acts by itself in somebody's name, such as when it deactivates who has left."""


class SupervisionLevel(StrEnum):
    """Which changes wait for a person, from the strictest level to the freest."""

    ASK_EVERY_CHANGE = "ask_every_change"
    ASK_DESTRUCTIVE_SECURITY = "ask_destructive_security"
    ACT = "act"


@dataclass(frozen=True, slots=True)
class PersonRef:
    """The person behind the call: the owner of a key, or who signed in."""

    id: int
    username: str
    display_name: str


@dataclass(frozen=True, slots=True)
class CredentialRef:
    """The credential presented. `id` is stable and not secret; `name` is that of the API key or agent, else None.

    An agent's `id` is its OAuth client's, which agents of several people may share; `grant_id` is its person's consent.
    If `withdraws_own_only`, it may withdraw what it has asked for, and nothing else of its person's. `by_passkey` is
    whether the session began with a passkey, `confirmed_by_passkey` whether one was used for this very call. `acr` and
    `amr` are what the provider said of the sign-in at which the session began. If `aggregates_reads`, reads of a minute
    that are alike are one record.
    """

    kind: CredentialKind
    id: str
    name: str | None = None
    expires_at: datetime | None = None
    grant_id: UUID | None = None
    withdraws_own_only: bool = False
    aggregates_reads: bool = False
    by_passkey: bool = False
    confirmed_by_passkey: bool = False
    acr: str = ""
    amr: tuple[str, ...] = ()

    @property
    def unique_id(self) -> str:
        """Identifies the credential among all others; what belongs to it is stored under this."""
        return self.id if self.grant_id is None else str(self.grant_id)


@dataclass(frozen=True, slots=True)
class DirectoryRef:
    """The directory connection chosen for the call.

    `protection_changes` counts the gateway's own changes of who is protected, so that a cache from before is not used.
    """

    id: UUID
    name: str
    client_id: str
    protection_changes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a change begins and when it ends by itself. A part that is None was not asked for.

    It ends at a moment or a while after it is made, never both.
    """

    apply_at: datetime | None = None
    revert_at: datetime | None = None
    revert_after: timedelta | None = None

    @property
    def ends(self) -> bool:
        return self.revert_at is not None or self.revert_after is not None

    def end_of(self, made_at: datetime) -> datetime:
        """The moment at which a change made at `made_at` ends."""
        return self.revert_at if self.revert_at is not None else made_at + (self.revert_after or timedelta())


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of one operation.

    - `permissions` are the effective ones (`app.codename`), read for this call; `scopes` confine where they count.
    - `supervision` is None for a person, whose changes are never held.
    - `directory` is None if none could be chosen; `directory_refusal` is then the error of operations that need one.
    - `if_match` holds the versions of an If-Match header (`*` for any), None without one; `if_none_match` those of a
      read's If-None-Match: the caller has these already.
    - `change_request_id` is set while an approved change is applied; only the hold is skipped then.
    - `call_id` is the gateway's own identifier of the request: the items of a batch share it, a retry has another.
      `batch_index` is an item's position in its batch.
    - `request_id` comes from the client and is for display and search only: any number of requests may share it.
    - `schedule` asks that a change begins later or ends by itself (`approvals.ends`).
    - `interrupted` are the `call_id`s of earlier attempts under the same idempotency key that got no final answer.
    - `holds_key`, asked in the transaction that records a change, tells whether no other request has taken over the
      idempotency key, as happens while this process is suspended.
    - `stream_as` asks an operation that lists objects for all of them as a `RecordStream` instead of a page.
    - `takes_octets` lets listed objects be Encoded, or their attributes hold UTF-8 octets (`core.shapes.encode_json`).
    - `prefetch` is a `directory.lookup.prefetch.Prefetch`, shared by calls that are prepared together.
    """

    surface: Surface
    person: PersonRef
    credential: CredentialRef
    permissions: frozenset[str]
    scopes: Scopes = ()
    supervision: SupervisionLevel | None = None
    directory: DirectoryRef | None = None
    directory_refusal: type[GatewayError] | None = None
    client_address: str | None = None
    request_id: str = ""
    call_id: UUID = field(default_factory=uuid4)
    reason: str | None = None
    dry_run: bool = False
    respond_async: bool = False
    if_match: frozenset[str] | None = None
    if_none_match: frozenset[str] | None = None
    change_request_id: UUID | None = None
    batch_index: int | None = None
    schedule: Schedule | None = None
    interrupted: tuple[UUID, ...] = ()
    holds_key: Callable[[], bool] = field(default=_always, compare=False, repr=False)
    stream_as: StreamFormat | None = None
    takes_octets: bool = False
    prefetch: object = field(default=None, compare=False, repr=False)

    @property
    def prefix(self) -> str:
        """The prefix of addresses in answers, on the surface that the caller has."""
        return "/rest" if self.surface is Surface.REST else "/api"

    def has_version(self, version: str) -> bool:
        """Whether the caller of a read has this version already and needs no body."""
        known = self.if_none_match
        return known is not None and (version in known or "*" in known)

    def may(self, permission: str) -> bool:
        return permission in self.permissions

"""Who calls, with what, for which directory: the context every operation gets as its first argument.

A call is a value. It is made once by a surface from what `keys` knows and never changed on the way.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from core.errors import GatewayError
from core.streams import StreamFormat


class Surface(StrEnum):
    """The way in. `worker` is an approved change or a run being applied."""

    API = "api"
    REST = "rest"
    AGENT = "agent"
    WORKER = "worker"


Scopes = tuple[tuple[UUID, ...], ...]
"""Where a caller may work: objectGUIDs of base objects, of each tuple one of which has to hold whatever is touched.

The role of a key is one tuple, what confines its owner another; without any tuple the caller is not confined.
"""


class CredentialKind(StrEnum):
    API_KEY = "apiKey"
    PLATFORM_TOKEN = "platformToken"  # noqa: S105 - a kind's name
    SESSION = "session"
    AGENT_TOKEN = "agentToken"  # noqa: S105 - a kind's name
    GATEWAY = "gateway"
    """None: the gateway does by itself what somebody has to answer for, such as deactivating who has left."""


class SupervisionLevel(StrEnum):
    """Which changes wait for a person. The order is from strict to free."""

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
    """What was presented. `id` is stable and not secret; `name` is the API key's (or the agent's) name, else None.

    Of an agent `id` is its client's, which agents of several people may share: `grant_id` is what its person consented
    to.
    """

    kind: CredentialKind
    id: str
    name: str | None = None
    expires_at: datetime | None = None
    grant_id: UUID | None = None

    @property
    def unique_id(self) -> str:
        """What belongs to the credential is kept under this: no other one has the same."""
        return self.id if self.grant_id is None else str(self.grant_id)


@dataclass(frozen=True, slots=True)
class DirectoryRef:
    """The directory connection chosen for the call.

    `protection_changes` counts the gateway's own changes of who is protected: nothing older than them is shown.
    """

    id: UUID
    name: str
    client_id: str
    protection_changes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of one operation.

    `permissions` are the effective ones (`app.codename`), read for this call. `scopes` say where they count: what the
    role and the person behind the call are confined to; empty means unrestricted. `supervision` is None for a person,
    who is never held.
    `directory` is None when none could be chosen; then `directory_refusal` says what to answer to an operation that
    needs one. `if_match` holds the versions of an If-Match header (`*` for any), None without the header;
    `if_none_match` those of a read's If-None-Match: of an object in one of them nothing but the version is wanted.
    `change_request_id` is set while an approved change is applied: only the hold is skipped then. `batch_index` is the
    place of the item that the call is for in its batch. `call_id` is the gateway's own identifier of the request that
    is answered: the items of a batch share it, a retry has another one. `request_id` is the client's word, good for
    display and search alone: any number of requests may share it. `interrupted` are the `call_id`s of earlier attempts
    under the same idempotency key that came to no final answer. With `stream_as` an operation that lists directory
    objects returns all of them as a `RecordStream` in place of a page. With `takes_octets` the attributes of listed
    objects may hold octets of UTF-8 in place of text: the surface writes JSON of them (`core.text.json_text`).
    `prefetch` is what is read at once for calls that are prepared together (a `directory.lookup.prefetch.Prefetch`).
    """

    surface: Surface
    person: PersonRef
    credential: CredentialRef
    permissions: frozenset[str]
    scopes: Scopes = ()
    supervision: SupervisionLevel | None = None
    directory: DirectoryRef | None = None
    directory_refusal: GatewayError | None = field(default=None, compare=False)
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
    interrupted: tuple[UUID, ...] = ()
    stream_as: StreamFormat | None = None
    takes_octets: bool = False
    prefetch: object = field(default=None, compare=False, repr=False)

    def knows(self, version: str) -> bool:
        """Whether the caller of a read has this version already, and wants no more than to hear it."""
        known = self.if_none_match
        return known is not None and (version in known or "*" in known)

    def may(self, permission: str) -> bool:
        return permission in self.permissions

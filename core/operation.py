"""The operation record and the registry. Each thing the gateway can do is declared here exactly once.

The surfaces (HTTP, batch, agent tools) and the pipeline are driven by these records and know no operation by name.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import EllipsisType
from typing import Any, TypeVar

from core.call import Surface
from core.shapes import Body, Query


class Effect(StrEnum):
    """What an operation touches, and so which stages of the pipeline it passes."""

    READ = "read"
    CHANGE = "change"  # of the directory: the function returns a `directory.shapes.proposal.Proposal`
    UNDERTAKE = "undertake"  # of both: the function records its intent, does it, and records what came of it
    ADMINISTER = "administer"  # of the gateway's own tables: the function does it and returns the answer


class Target(StrEnum):
    """What an operation is about: whether it needs a directory, and what `{id}` in its path names."""

    OBJECT = "object"  # an object of a directory, named by its objectGUID
    SUBTREE = "subtree"  # the same with everything below it, to which happens what happens to it
    DIRECTORY = "directory"  # a directory as a whole, or what the gateway keeps for one: saved filters, runs
    GATEWAY = "gateway"  # the gateway's own tables


class Risk(StrEnum):
    """How dangerous a change is. Of several, security wins, then destructive."""

    ORDINARY = "ordinary"
    DESTRUCTIVE = "destructive"
    SECURITY = "security"


class RateCategory(StrEnum):
    """The limit of `RateLimiting` that counts the operation, besides Global."""

    GLOBAL = "Global"
    DIRECTORY_SEARCH = "DirectorySearch"
    PASSWORD_RESET = "PasswordReset"  # noqa: S105 - a category's name
    PASSWORD_CHANGE = "PasswordChange"  # noqa: S105 - a category's name


SIGNED_IN = "signed-in"
"""Permission of an operation that every valid credential may call (its own identity, its own change requests)."""

NO_INVERSE = None
"""The inverse of a change that cannot be taken back."""

HTTP_SURFACES = frozenset({Surface.API, Surface.REST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing the gateway can do.

    `name` is `<resource>.<verb>`; `route` is `METHOD path/{id}` below the surface's prefix; `label` is what people call
    it, with what it is done to in braces: `Read {a user}`, in whose place a known name is put; `permission` admits the
    caller if any of its members is held; `requires` is what every such call needs besides (what the target itself asks
    for is the proposal's business); `risk` is the least risk of a change, `inverse` the verb of the one that takes it
    back; `creates` is whether it makes what it answers with; `body` and `query` are input shapes; `output` is a
    TypedDict, None for an empty answer.
    """

    name: str
    route: str
    label: str
    function: Callable[..., Any]
    permission: frozenset[str]
    requires: frozenset[str]
    effect: Effect
    target: Target
    risk: Risk
    inverse: str | None
    creates: bool
    rate: RateCategory
    query: type[Query] | None
    body: type[Body] | None
    output: Any
    surfaces: frozenset[Surface]
    batchable: bool

    @property
    def method(self) -> str:
        return self.route.split(" ", 1)[0]

    @property
    def path(self) -> str:
        return self.route.split(" ", 1)[1]

    @property
    def resource(self) -> str:
        return self.name.partition(".")[0]

    @property
    def action(self) -> str:
        return self.name.partition(".")[2]

    @property
    def on_directory(self) -> bool:
        """Whether the operation needs a directory connection."""
        return self.target is not Target.GATEWAY

    @property
    def names_object(self) -> bool:
        """Whether `id` in its path is the objectGUID of a directory object."""
        return self.target in (Target.OBJECT, Target.SUBTREE)

    @property
    def is_creation(self) -> bool:
        """Whether nothing that it names has a version: only the `*` of If-Match holds (RFC 9110 section 13.1.1)."""
        return self.effect is not Effect.READ and "{id}" not in self.path

    @property
    def status(self) -> int:
        """The status of success: 204 without an answer, 201 for a creation, else 200."""
        if self.output is None:
            return 204
        return 201 if self.creates else 200

    @property
    def summary(self) -> str:
        """The first line of the function's docstring, written for its users."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


F = TypeVar("F", bound=Callable[..., Any])

_operations: dict[str, Operation] = {}


def operation(
    name: str,
    route: str,
    label: str,
    *,
    permission: str | frozenset[str],
    requires: frozenset[str] = frozenset(),
    effect: Effect = Effect.READ,
    target: Target = Target.GATEWAY,
    risk: Risk = Risk.ORDINARY,
    inverse: str | EllipsisType | None = ...,
    creates: bool = False,
    rate: RateCategory = RateCategory.GLOBAL,
    query: type[Query] | None = None,
    body: type[Body] | None = None,
    output: Any = None,
    surfaces: frozenset[Surface] = HTTP_SURFACES,
    batchable: bool = False,
) -> Callable[[F], F]:
    """Declare a function as an operation. A second declaration of a name or route is an error.

    A change of the directory has to say its inverse, or that it has none. The catalogue has its `label`.
    """
    declared = locals()
    admitted = frozenset({permission}) if isinstance(permission, str) else permission

    def declare(function: F) -> F:
        if not admitted or not all(admitted):
            raise ValueError(f"operation {name} has no permission")
        if not (function.__doc__ or "").strip():
            raise ValueError(f"operation {name} has no docstring")
        if not label:
            raise ValueError(f"operation {name} has no label")
        if (effect is Effect.CHANGE) is isinstance(inverse, EllipsisType):
            raise ValueError(f"operation {name}: a change of the directory says its inverse, and nothing else does")
        for other in _operations.values():
            if other.name == name or (other.route == route and other.surfaces & surfaces):
                raise ValueError(f"operation {name} ({route}) is declared already, as {other.name} ({other.route})")
        own = {"permission": admitted, "inverse": None if isinstance(inverse, EllipsisType) else inverse}
        _operations[name] = Operation(function=function, **{**declared, **own})
        return function

    return declare


rest_operation = partial(operation, surfaces=frozenset({Surface.REST}))
"""The same of one that people and their tools have on `/rest`, and integrations do not."""
administration = partial(rest_operation, effect=Effect.ADMINISTER)
"""The same of one that changes the gateway's own tables."""


def find_operation(name: str) -> Operation:
    """The operation of that name; KeyError when there is none."""
    return _operations[name]


def operations(surface: Surface | None = None) -> Iterator[Operation]:
    """All operations (of one surface), in the order of their declaration."""
    return (item for item in list(_operations.values()) if surface is None or surface in item.surfaces)

"""The operation record and the registry. Each thing the gateway can do is declared here exactly once.

The surfaces (HTTP, batch, agent tools) and the pipeline are driven by these records and know no operation by name.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from email.utils import formatdate
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
    SUBTREE = "subtree"  # an object and everything below it, which shares its fate
    DIRECTORY = "directory"  # a directory as a whole, or what the gateway keeps for one: saved filters, runs
    GATEWAY = "gateway"  # the gateway's own tables


class Risk(StrEnum):
    """How dangerous a change is. Of several risks, security wins, then destructive."""

    ORDINARY = "ordinary"
    DESTRUCTIVE = "destructive"
    SECURITY = "security"


def greatest_risk(*risks: Risk) -> Risk:
    """The risk that wins; ordinary of none."""
    return max(risks, key=list(Risk).index, default=Risk.ORDINARY)


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


@dataclass(frozen=True, slots=True)
class Deprecation:
    """An operation is deprecated since a day, and removed on its `sunset` at the earliest (docs/api.md#deprecation).

    `instead` tells integrators in a sentence what to use. Raises ValueError for a sunset less than a year away.
    """

    since: date
    sunset: date
    instead: str

    def __post_init__(self) -> None:
        if self.sunset - self.since < timedelta(days=365):
            raise ValueError("what is deprecated stays for a year")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of RFC 9745 and RFC 8594."""
        since, sunset = (datetime.combine(day, time(), tzinfo=UTC).timestamp() for day in (self.since, self.sunset))
        return {"Deprecation": f"@{since:.0f}", "Sunset": formatdate(sunset, usegmt=True)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """One thing the gateway can do.

    `name` is `<resource>.<action>`; `route` is `METHOD path/{id}` below the surface's prefix; `label` is what people
    call it, with its object in braces (`Read {a user}`), which the object's name replaces where it is known. A caller
    needs any one of `permission` and all of `requires`; a proposal may ask for more because of its target. `risk` is
    the lowest risk of a change, `inverse` the action that undoes it. `creates` says whether the answer is a new object.
    `body` and `query` are input shapes; `output` is a TypedDict, None for an empty answer.
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
    deprecation: Deprecation | None = None

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
    def needs_directory(self) -> bool:
        """Whether the operation needs a directory connection."""
        return self.target is not Target.GATEWAY

    @property
    def names_object(self) -> bool:
        """Whether `{id}` in its path is the objectGUID of a directory object."""
        return self.target in (Target.OBJECT, Target.SUBTREE)

    @property
    def is_creation(self) -> bool:
        """Whether its path names no object that could have a version, so that If-Match can hold no more than `*`.

        RFC 9110 section 13.1.1.
        """
        return self.effect is not Effect.READ and "{id}" not in self.path

    @property
    def status(self) -> int:
        """The status of success: 204 without an answer, 201 for a creation, else 200."""
        if self.output is None:
            return 204
        return 201 if self.creates else 200

    def may_be_called_with(self, permissions: frozenset[str]) -> bool:
        """Whether these permissions admit a caller at all; the target may ask for more."""
        return SIGNED_IN in self.permission or bool(self.permission & permissions)

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
    output: Any = ...,
    surfaces: frozenset[Surface] = HTTP_SURFACES,
    batchable: bool = False,
    deprecation: Deprecation | None = None,
) -> Callable[[F], F]:
    """Declare a function as an operation. Raises ValueError for a second declaration of a name or route.

    The function's annotations give the shapes of query, body and output unless the arguments do. A change of the
    directory returns a proposal, so it must pass the `output` that callers get, if any, and its `inverse` or
    `NO_INVERSE`. The German catalogue translates the `label`.
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
        annotated = function.__annotations__
        answered = None if effect is Effect.CHANGE else annotated["return"]
        own = {
            "permission": admitted,
            "inverse": None if isinstance(inverse, EllipsisType) else inverse,
            "query": query or annotated.get("query"),
            "body": body or annotated.get("body"),
            "output": answered if isinstance(output, EllipsisType) else output,
        }
        _operations[name] = Operation(function=function, **{**declared, **own})
        return function

    return declare


rest_operation = partial(operation, surfaces=frozenset({Surface.REST}))
"""Declare an operation for people and their tools (`/rest`) that integrations (`/api`) do not have."""
administration = partial(rest_operation, effect=Effect.ADMINISTER)
"""Declare an operation on `/rest` that changes the gateway's own tables."""


def find_operation(name: str) -> Operation:
    """The operation of that name; raises KeyError."""
    return _operations[name]


def operations(surface: Surface | None = None) -> Iterator[Operation]:
    """All operations, or those of one surface, in the order of their declaration."""
    # A copy, because importing a module while somebody iterates declares more operations.
    return (item for item in list(_operations.values()) if surface is None or surface in item.surfaces)

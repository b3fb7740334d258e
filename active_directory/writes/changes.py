"""Writes as values: what is to be done to one entry, ready to be sent; sending is the client's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

Operation = Literal["add", "delete", "replace"]


@dataclass(frozen=True)
class Modification:
    """One step of a modify. No values with ``delete`` or ``replace`` remove the attribute."""

    op: Operation
    attribute: str
    values: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"Modification({self.op!r}, {self.attribute!r}, {len(self.values)} values)"  # values may be passwords


@dataclass(frozen=True)
class Add:
    """A new entry."""

    dn: str
    attributes: Mapping[str, Sequence[bytes]]
    guarded: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"Add({self.dn!r}, {sorted(self.attributes)})"  # values may be passwords


@dataclass(frozen=True)
class Modify:
    """Steps on one entry, applied all or none. ``dn`` may be a ``<GUID=…>`` reference.

    ``guarded`` says that the steps contain compare-and-swaps, so that a missing old value is a conflict. ``deleted``
    lets the entry be a deleted one: reanimating it is a modify ([MS-ADTS] 3.1.1.5.3.7).
    """

    dn: str
    modifications: tuple[Modification, ...]
    guarded: bool = False
    deleted: bool = False


@dataclass(frozen=True)
class Delete:
    """The end of an entry; ``tree`` takes everything below with it."""

    dn: str
    tree: bool = False
    guarded: ClassVar[bool] = False


@dataclass(frozen=True)
class Rename:
    """Another name or another parent. AD accepts distinguished names only here, no ``<GUID=…>`` references."""

    dn: str
    new_rdn: str
    new_parent: str | None = None
    guarded: ClassVar[bool] = False


Write = Add | Modify | Delete | Rename


def names_by_dn(write: Write) -> bool:
    """Whether the object was named by a distinguished name because AD takes no objectGUID for this write."""
    return isinstance(write, Rename | Delete) or (isinstance(write, Modify) and write.deleted)


def swap(attribute: str, old: bytes | None, new: bytes | None) -> tuple[Modification, ...]:
    """A compare-and-swap of one value: the modify that contains it fails as a whole unless ``old`` is still there.

    With ``old`` None the attribute must be single-valued for the guard to hold: adding then fails if it has a value.
    A stale swap of userAccountControl whose ``new`` already holds may succeed: two workers cannot share work by it.
    """
    if old == new:
        return ()
    removed = () if old is None else (Modification("delete", attribute, (old,)),)
    added = () if new is None else (Modification("add", attribute, (new,)),)
    return removed + added


def quoted_password(text: str) -> bytes:
    """A value of ``unicodePwd``: UTF-16-LE in double quotes ([MS-ADTS] 3.1.1.3.1.5)."""
    return f'"{text}"'.encode("utf-16-le")

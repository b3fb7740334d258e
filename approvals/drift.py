"""Whether a change that was approved is still the one that was asked for: the values now and those kept with it."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from django.conf import settings

from active_directory import DistinguishedName, fold
from approvals.models import ChangeRequest
from audit.redact import ChangeJson, redacted
from directory.shapes.proposal import SECRET, AttributeChange, Proposal


def has_drifted(
    change_request: ChangeRequest,
    proposal: Proposal,
    references_of: Callable[[AttributeChange], Iterable[str]] = lambda _: (),
) -> bool:
    """Whether the attributes concerned have changed since the request: then it is not what was approved any more.

    It is not either when its target has become one whose changes two people approve. `references_of` gives the names
    of objects in a change: an object with another name is the same, and another object with the name is not.
    """
    held = [
        (item, {each["name"]: each["id"] for each in item.get("references", ())}) for item in change_request.changes
    ]
    now = [
        (item, {name: str(proposal.identities[name]) for name in references_of(change) if name in proposal.identities})
        for item, change in zip(
            redacted(change.as_json() for change in proposal.changes), proposal.changes, strict=True
        )
    ]
    if _comparable_state(now, place=proposal.target.distinguished_name) != _comparable_state(
        held, place=change_request.target_dn
    ):
        return True
    if proposal.protected and not change_request.protected and settings.CONFIGURATION.Approvals.ProtectedNeedsTwo:
        return True
    return change_request.kept_input().get("versions") != versions_of_secrets(proposal)


def versions_of_secrets(proposal: Proposal) -> dict[str, int] | None:
    """How often what a change replaces was changed, where its value cannot be seen: a password, by its version."""
    if not any(SECRET in change.before for change in proposal.changes):
        return None
    versions: dict[str, int] | None = proposal.evidence.get("versions")
    return versions


_NOT_CONCERNED = frozenset({"lastlogontimestamp", "memberof", "admincount"})
"""Shown with a deletion, but kept by the directory: a sign-in or the renaming of a group does not change what goes."""


def _comparable_state(
    changes: Sequence[tuple[ChangeJson, Mapping[str, str]]], *, place: str
) -> dict[str, tuple[list[str], list[str]]]:
    """By attribute the values before and after, with the objectGUIDs of what they refer to in the place of its names.

    The directory gives no order to the values of an attribute. The target may be moved or renamed meanwhile, and what
    is below it with it: unless the change is about its place, names count as they are relative to it.
    """
    by_name = {item["attribute"].lower(): (item, known) for item, known in changes}
    seen: dict[str, tuple[list[str], list[str]]] = {}
    if "distinguishedname" in by_name:
        item, known = by_name.pop("distinguishedname")
        if item["after"]:  # its parent is an object like others; what it is called itself is the matter
            place = ""
            seen["distinguishedname"] = (item["before"], [_below_identity(name, known) for name in item["after"]])
        else:
            seen["distinguishedname"] = (sorted(_identity(name, known, place) for name in item["before"]), [])
            by_name = {name: each for name, each in by_name.items() if name not in _NOT_CONCERNED}
    return seen | {
        _identity(item["attribute"], known, place).lower(): (  # of a run the account, by its name
            sorted(_identity(value, known, place) for value in item["before"]),
            sorted(_identity(value, known, place) for value in item["after"]),
        )
        for item, known in by_name.values()
    }


def _identity(value: str, known: Mapping[str, str], place: str) -> str:
    """A value with the objectGUID of the object that it names, if it names one of those known."""
    if value in known:
        return f"<GUID={known[value]}>"
    for name in sorted(known, key=len, reverse=True):  # in the middle of a value, as links to policies have them
        if name in value:
            return value.replace(name, f"<GUID={known[name]}>")
    return _relative(value, place)


def _below_identity(name: str, known: Mapping[str, str]) -> str:
    """A name by its first component and the objectGUID of its parent."""
    parsed = DistinguishedName.parse(name)
    parent = known.get(str(parsed.parent))
    return name if parent is None else f"{parsed.rdn},<GUID={parent}>"


def _relative(text: str, place: str) -> str:
    """A name at or below a place by its way from there; anything else as it is."""
    at = len(text) - len(place)
    if not place or fold(text[at:]) != fold(place) or (at > 0 and text[at - 1] != ","):
        return text
    return f"{text[:at]}<target>"

"""Whether an approved change is still the one that was requested: compares the values now with those kept then."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from django.conf import settings

from active_directory import DistinguishedName, fold_case
from approvals.models import ChangeRequest
from audit.model_changes.descriptions import RowChange, fingerprint_of
from audit.redact import SECRET, ChangeJson, redacted
from directory.shapes.proposal import AttributeChange, Proposal


def has_drifted(
    change_request: ChangeRequest,
    proposal: Proposal,
    references_of: Callable[[AttributeChange], Iterable[str]] = lambda _: (),
) -> bool:
    """Whether the attributes concerned have changed since the request, so that it is no longer what was approved.

    A target that has since become protected, so that two people have to approve, counts as drift too. `references_of`
    gives the names of objects in a change. Objects are compared by objectGUID: a renamed object is still the same, and
    another object under the old name is not.
    """
    kept = [
        (item, {each["name"]: each["id"] for each in item.get("references", ())}) for item in change_request.changes
    ]
    now = [
        (item, {name: str(proposal.identities[name]) for name in references_of(change) if name in proposal.identities})
        for item, change in zip(
            redacted(change.as_json() for change in proposal.changes), proposal.changes, strict=True
        )
    ]
    if _comparable_state(now, target_dn=proposal.target.distinguished_name) != _comparable_state(
        kept, target_dn=change_request.target_dn
    ):
        return True
    if proposal.protected and not change_request.protected and settings.CONFIGURATION.Approvals.ProtectedNeedsTwo:
        return True
    return change_request.kept_input().get("versions") != secret_versions(proposal)


def has_access_drifted(change_request: ChangeRequest, made: list[RowChange]) -> bool:
    """Whether a change of the gateway's own tables would start from, or lead to, other values than was asked for."""
    return bool(change_request.kept_input().get("made") != fingerprint_of(made))


def secret_versions(proposal: Proposal) -> dict[str, int] | None:
    """The replication versions of the secret attributes that a change replaces, by attid; None without any.

    The old value of a password cannot be read, so that only its version tells whether it was changed meanwhile.
    """
    if not any(SECRET in change.before for change in proposal.changes):
        return None
    versions: dict[str, int] | None = proposal.evidence.get("versions")
    return versions


_KEPT_BY_DIRECTORY = frozenset({"lastlogontimestamp", "memberof", "admincount"})
"""Shown with a deletion, but written by the directory itself: a sign-in or a renamed group is no drift."""


def _comparable_state(
    changes: Sequence[tuple[ChangeJson, Mapping[str, str]]], *, target_dn: str
) -> dict[str, tuple[list[str], list[str]]]:
    """The values before and after by attribute, sorted, with objectGUIDs in place of the names of known objects.

    LDAP gives no order to the values of an attribute (RFC 4511 section 4.1.7), so they are sorted. The target and what
    is below it may have been moved or renamed meanwhile: unless the change is about the target's own name, names are
    compared relative to it.
    """
    by_name = {item["attribute"].lower(): (item, known) for item, known in changes}
    state: dict[str, tuple[list[str], list[str]]] = {}
    if "distinguishedname" in by_name:
        item, known = by_name.pop("distinguishedname")
        if item["after"]:  # a move or rename: the target's own name matters, so nothing is compared relative to it
            target_dn = ""
            state["distinguishedname"] = (item["before"], [_with_parent_guid(name, known) for name in item["after"]])
        else:
            state["distinguishedname"] = (sorted(_with_guids(name, known, target_dn) for name in item["before"]), [])
            by_name = {name: each for name, each in by_name.items() if name not in _KEPT_BY_DIRECTORY}
    return state | {
        _with_guids(item["attribute"], known, target_dn).lower(): (  # in a run, accounts stand in place of attributes
            sorted(_with_guids(value, known, target_dn) for value in item["before"]),
            sorted(_with_guids(value, known, target_dn) for value in item["after"]),
        )
        for item, known in by_name.values()
    }


def _with_guids(value: str, known: Mapping[str, str], target_dn: str) -> str:
    """The value with the objectGUID in place of the name of a known object, or else relative to the target."""
    if value in known:
        return f"<GUID={known[value]}>"
    for name in sorted(known, key=len, reverse=True):  # gPLink holds names in the middle of its value ([MS-GPOL] 2.2.2)
        if name in value:
            return value.replace(name, f"<GUID={known[name]}>")
    return _relative_to(value, target_dn)


def _with_parent_guid(name: str, known: Mapping[str, str]) -> str:
    """The name as its RDN and the objectGUID of its parent."""
    parsed = DistinguishedName.parse(name)
    parent = known.get(str(parsed.parent))
    return name if parent is None else f"{parsed.rdn},<GUID={parent}>"


def _relative_to(text: str, target_dn: str) -> str:
    """A name at or below the target relative to it; any other text unchanged."""
    at = len(text) - len(target_dn)
    if not target_dn or fold_case(text[at:]) != fold_case(target_dn) or (at > 0 and text[at - 1] != ","):
        return text
    return f"{text[:at]}<target>"

"""Which changes wait for a person (docs/api.md#supervision): the risk of a change, why, and the levels that hold it.

The reasons are for people: the dry run warns of them, the approver reads them, and no decision rests on them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from approvals.security_attributes import meaning_of
from core.call import SupervisionLevel
from core.operation import Operation, Risk
from core.text.messages import Message, clause, message
from core.text.unseen import unseen_in, with_unseen_marked
from directory.shapes.proposal import Proposal

HELD: dict[SupervisionLevel, frozenset[Risk]] = {
    SupervisionLevel.ASK_EVERY_CHANGE: frozenset({Risk.ORDINARY, Risk.DESTRUCTIVE, Risk.SECURITY}),
    SupervisionLevel.ASK_DESTRUCTIVE_SECURITY: frozenset({Risk.DESTRUCTIVE, Risk.SECURITY}),
    SupervisionLevel.ACT: frozenset(),
}

HOLDING = frozenset(level for level, held in HELD.items() if held)
"""The levels at which changes wait."""

_ORDER = (Risk.ORDINARY, Risk.DESTRUCTIVE, Risk.SECURITY)
"""Of several risks of one change the last one counts."""

_LOOKS_ALIKE = message("it gives, or refers to, a name that looks like that of another object")

_NAMES = frozenset(
    {"distinguishedname", "samaccountname", "userprincipalname", "displayname", "displaynameprintable", "givenname"}
    | {"sn", "initials", "mail", "mailnickname", "proxyaddresses", "serviceprincipalname", "dnshostname"}
)
"""What people tell objects apart by. Objects are named, and moved, by their distinguished name."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The risk of a change and the reasons for the level; an ordinary one has no reasons.

    `plain_reasons` are the same without the names of other objects, for readers who are confined.
    """

    risk: Risk
    reasons: tuple[str, ...] = ()
    plain_reasons: tuple[str, ...] = ()


class _Ground(NamedTuple):
    """Why a change is more than an ordinary one; `plain` names no other object, where `words` do."""

    risk: Risk
    words: str
    plain: str | None = None


def risk_of(
    operation: Operation,
    proposal: Proposal,
    *,
    is_confidential: Callable[[str], bool],
    why_protected: Callable[[], str | None],
    look_alikes: Callable[[], Iterable[Message]],
) -> Assessment:
    """The risk of a change: the greatest of what its operation, its input, its target and its attributes say.

    `is_confidential` tells whether the directory's schema marks an attribute confidential. `why_protected` tells what
    protects the target, and is asked for a protected one only. `look_alikes` tells which names look like another's.
    """
    grounds = list(_grounds(operation, proposal, is_confidential, why_protected))
    grounds += [
        _Ground(Risk.SECURITY, sentence.with_values(with_unseen_marked), _LOOKS_ALIKE) for sentence in look_alikes()
    ]
    greatest = max((ground.risk for ground in grounds), key=_ORDER.index, default=Risk.ORDINARY)
    grounds.sort(key=lambda ground: ground.risk is not greatest)

    reasons = tuple(_sentence(ground.risk, greatest, ground.words) for ground in grounds)
    plain = dict.fromkeys(_sentence(ground.risk, greatest, ground.plain or ground.words) for ground in grounds)
    return Assessment(greatest, reasons, tuple(plain))


def _sentence(risk: Risk, greatest: Risk, ground: str) -> Message:
    """Why a change has a risk; of two risks the lesser one is destructive, since nothing makes a change ordinary."""
    if risk is not greatest:
        return message("It is also a destructive change: {ground}.", ground=ground)
    if risk is Risk.DESTRUCTIVE:
        return message("This is a destructive change: {ground}.", ground=ground)
    return message("This is a security change: {ground}.", ground=ground)


def _grounds(
    operation: Operation,
    proposal: Proposal,
    is_confidential: Callable[[str], bool],
    why_protected: Callable[[], str | None],
) -> Iterator[_Ground]:
    """Everything that makes a change more than an ordinary one."""
    own = max(operation.risk, proposal.risk, key=_ORDER.index)
    if own is not Risk.ORDINARY:
        yield _Ground(own, proposal.risk_reason or clause(operation.summary))
    if proposal.protected:
        plain, detail = message("the target is a protected object"), why_protected()
        full = message("the target is a protected object ({protection})", protection=detail) if detail else plain
        yield _Ground(Risk.SECURITY, full, plain)
    for effect in proposal.sign_in_effects:
        yield _Ground(effect.risk, effect.reason)
    yield from _deceiving_names(proposal)
    for name in sorted(proposal.attributes):
        if meaning := meaning_of(name):
            yield _Ground(Risk.SECURITY, message("it writes {attribute}, {meaning}", attribute=name, meaning=meaning))
        elif is_confidential(name):
            yield _Ground(
                Risk.SECURITY, message("it writes {attribute}, which the schema marks confidential", attribute=name)
            )


def _deceiving_names(proposal: Proposal) -> Iterator[_Ground]:
    """Names that are not what people see: those given, and those of objects newly referred to."""
    for change in proposal.changes:
        is_name = change.attribute.lower() in _NAMES
        new = [value for value in change.after if value not in change.before]
        named = [value for value in new if is_name or value in proposal.identities]
        if unseen := unseen_in("".join(named)):
            attribute, listed = change.attribute, ", ".join(unseen)
            words = (
                message(
                    "it gives a name with characters that nobody sees, in {attribute}: {characters}",
                    attribute=attribute,
                    characters=listed,
                )
                if is_name
                else message(
                    "it refers to a name with characters that nobody sees, in {attribute}: {characters}",
                    attribute=attribute,
                    characters=listed,
                )
            )
            yield _Ground(Risk.SECURITY, words)


def must_wait(level: SupervisionLevel | None, risk: Risk) -> bool:
    """Whether a change of this risk waits for a person. Without a level it is a person who acts, and is never held."""
    return level is not None and risk in HELD[level]

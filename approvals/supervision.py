"""Which changes wait for a person (docs/api.md#supervision): the risk of a change, its reasons, and the levels.

The reasons are for people: a dry run shows them as warnings and an approver reads them, but nothing is decided by them.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, cast

from django.conf import settings

from audit.redact import is_credential
from core.call import SupervisionLevel
from core.operation import Operation, Risk, greatest_risk
from core.text.invisible import invisible_code_points, mark_invisible
from core.text.messages import Message, clause, message
from directory.shapes.proposal import Proposal

HELD_RISKS: dict[SupervisionLevel, frozenset[Risk]] = {
    SupervisionLevel.ASK_EVERY_CHANGE: frozenset({Risk.ORDINARY, Risk.DESTRUCTIVE, Risk.SECURITY}),
    SupervisionLevel.ASK_DESTRUCTIVE_SECURITY: frozenset({Risk.DESTRUCTIVE, Risk.SECURITY}),
    SupervisionLevel.ACT: frozenset(),
}

HOLDING_LEVELS = frozenset(level for level, held in HELD_RISKS.items() if held)
"""The levels at which some changes wait."""

_LOOKS_ALIKE = message("it gives, or refers to, a name that looks like that of another object")

_NAMES = frozenset(
    {"distinguishedname", "samaccountname", "userprincipalname", "displayname", "displaynameprintable", "givenname"}
    | {"sn", "initials", "mail", "mailnickname", "proxyaddresses", "serviceprincipalname", "dnshostname"}
)
"""Attributes by which people recognize an object. The distinguished name changes with a rename or a move."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The risk of a change and its reasons; an ordinary change has none.

    `plain_reasons` are the same without the names of other objects, for confined readers.
    """

    risk: Risk
    reasons: tuple[str, ...] = ()
    plain_reasons: tuple[str, ...] = ()


class _Ground(NamedTuple):
    """A reason why a change is not ordinary; `plain` names no other object, where `words` does."""

    risk: Risk
    words: str
    plain: str | None = None


def risk_of(
    operation: Operation,
    proposal: Proposal,
    *,
    is_confidential: Callable[[str], bool],
    protection_reason: Callable[[], str | None],
    look_alikes: Callable[[], Iterable[Message]],
) -> Assessment:
    """The risk of a change: the greatest that its operation, input, target and attributes imply.

    `is_confidential` says whether the schema marks an attribute confidential ([MS-ADTS] 2.2.9).
    `protection_reason` says what protects the target, and is called for protected targets only. `look_alikes` returns a
    sentence for each name that looks like another object's.
    """
    grounds = list(_grounds(operation, proposal, is_confidential, protection_reason))
    grounds += [
        _Ground(Risk.SECURITY, sentence.with_values(mark_invisible), _LOOKS_ALIKE) for sentence in look_alikes()
    ]
    greatest = greatest_risk(*(ground.risk for ground in grounds))
    grounds.sort(key=lambda ground: ground.risk is not greatest)  # first those that decide

    reasons = tuple(_sentence(ground.risk, greatest, ground.words) for ground in grounds)
    plain = dict.fromkeys(_sentence(ground.risk, greatest, ground.plain or ground.words) for ground in grounds)
    return Assessment(greatest, reasons, tuple(plain))


def _sentence(risk: Risk, greatest: Risk, ground: str) -> Message:
    """A reason as a sentence. A lesser reason is always a destructive one, since nothing makes a change ordinary."""
    if risk is not greatest:
        return message("It is also a destructive change: {ground}.", ground=ground)
    if risk is Risk.DESTRUCTIVE:
        return message("This is a destructive change: {ground}.", ground=ground)
    return message("This is a security change: {ground}.", ground=ground)


def _grounds(
    operation: Operation,
    proposal: Proposal,
    is_confidential: Callable[[str], bool],
    protection_reason: Callable[[], str | None],
) -> Iterator[_Ground]:
    """Everything that makes a change more than an ordinary one."""
    own = greatest_risk(operation.risk, proposal.risk)
    if own is not Risk.ORDINARY:
        yield _Ground(own, proposal.risk_reason or clause(operation.summary))
    if proposal.protected:
        plain, detail = message("the target is a protected object"), protection_reason()
        full = message("the target is a protected object ({protection})", protection=detail) if detail else plain
        yield _Ground(Risk.SECURITY, full, plain)
    for effect in proposal.sign_in_effects:
        yield _Ground(effect.risk, effect.reason)
    yield from _deceiving_names(proposal)
    for name in sorted(proposal.attributes):
        if meaning := security_meaning(name):
            yield _Ground(Risk.SECURITY, message("it writes {attribute}, {meaning}", attribute=name, meaning=meaning))
        elif is_confidential(name):
            yield _Ground(
                Risk.SECURITY, message("it writes {attribute}, which the schema marks confidential", attribute=name)
            )


def _deceiving_names(proposal: Proposal) -> Iterator[_Ground]:
    """Names that are not what people see, given to the target or newly referred to."""
    for change in proposal.changes:
        is_name = change.attribute.lower() in _NAMES
        new = [value for value in change.after if value not in change.before]
        named = [value for value in new if is_name or value in proposal.identities]
        if unseen := invisible_code_points("".join(named)):
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


Verdict = Literal["security", "ordinary", "effect", "unwritable"]


class Review(NamedTuple):
    """The verdict on an attribute; the reason completes a sentence that begins with the attribute's name."""

    attribute: str
    verdict: Verdict
    reason: str


with Path(__file__).with_name("attribute_review.tsv").open(encoding="ascii", newline="") as _file:
    _lines = csv.reader(_file, dialect="excel-tab")
    next(_lines)
    _reviews = [Review(name, cast(Verdict, verdict), reason) for name, verdict, reason in _lines]
REVIEWED: Final = MappingProxyType({review.attribute.lower(): review for review in _reviews})
"""The attributes whose change is a security change: all that a sign-in, a service, a script or a mapping reads.

`attribute_review.tsv` beside this module is the review of the whole schema, of Windows Server 2025 and of the products
most often found with it: a line for each attribute with its verdict and the reason. Sources: MS-ADA1 to MS-ADA3
(attributes), MS-ADSC (classes), MS-ADTS, MS-KILE and MS-PKCA (how they are used), MS-CRTD (certificate templates).

The verdicts: `security`; `ordinary`, which only people read; `effect`, judged by what the change does to somebody's
ability to sign in (`directory.shapes.value_rules`); `unwritable`, which no request writes in the schema
reviewed, and which is security where another schema lets it be written. An attribute that is not in the table is a
site's own: ordinary, unless the configuration names it (`Supervision:SecurityAttributes`) or the schema marks it
confidential. The keys are in lower case: names of attributes do not differ by case.
"""


def security_meaning(name: str) -> str | None:
    """Why writing an attribute is a security change, in words; None if its name is no reason.

    Credentials always are. Options (`userCertificate;binary`, RFC 4512 section 2.5) make no difference.
    """
    if is_credential(name):
        return message("a credential")
    bare = name.partition(";")[0].strip().lower()
    if bare in {named.lower() for named in settings.CONFIGURATION.Supervision.SecurityAttributes}:
        return message("which the configuration counts among those that decide about security")
    review = REVIEWED.get(bare)
    return message(review.reason) if review is not None and review.verdict in ("security", "unwritable") else None


def must_wait(level: SupervisionLevel | None, risk: Risk) -> bool:
    """Whether a change of this risk is held. Without a level a person acts, whose changes are never held."""
    return level is not None and risk in HELD_RISKS[level]

"""Which changes wait for a person (contract section 7): the risk of a change, and the levels that hold it."""

from collections.abc import Callable

from approvals.security_attributes import is_security_attribute
from directory.proposal import Proposal
from gateway.core.call import SupervisionLevel
from gateway.core.operation import Operation, Risk

HELD: dict[SupervisionLevel, frozenset[Risk]] = {
    SupervisionLevel.ASK_EVERY_CHANGE: frozenset({Risk.ORDINARY, Risk.DESTRUCTIVE, Risk.SECURITY}),
    SupervisionLevel.ASK_DESTRUCTIVE_SECURITY: frozenset({Risk.DESTRUCTIVE, Risk.SECURITY}),
    SupervisionLevel.ACT: frozenset(),
}

_ORDER = (Risk.ORDINARY, Risk.DESTRUCTIVE, Risk.SECURITY)
"""Of several risks of one change the last one counts."""


def risk_of(operation: Operation, proposal: Proposal, is_confidential: Callable[[str], bool]) -> Risk:
    """The risk of a change: the greatest of what its operation, its input, its target and its attributes say.

    `is_confidential` tells whether the directory's schema marks an attribute confidential.
    """
    risks = [operation.risk, proposal.risk]
    if proposal.protected:
        risks.append(Risk.SECURITY)
    if any(is_security_attribute(name) or is_confidential(name) for name in proposal.attributes):
        risks.append(Risk.SECURITY)
    return max(risks, key=_ORDER.index)


def must_wait(level: SupervisionLevel | None, risk: Risk) -> bool:
    """Whether a change of this risk waits for a person. Without a level it is a person who acts, and is never held."""
    return level is not None and risk in HELD[level]

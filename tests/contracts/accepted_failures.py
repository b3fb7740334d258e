"""What schemathesis takes for failures of the gateway and is none, each with the reason."""

from tests.support.fuzzing import Accepted

REJECTED = "ST202"
"""A request that the schema allows was refused."""
ACCEPTED_ALL_THE_SAME = "ST201"

ACCEPTED = (
    Accepted(REJECTED, "AD.Object.VersionMismatch", "whether If-Match still holds, the object tells"),
    Accepted(REJECTED, "AD.Attributes.Unknown", "which attributes there are, the directory's schema tells"),
    Accepted(REJECTED, "AD.Password.PolicyViolation", "the domain's policy judges passwords"),
    Accepted(REJECTED, "Search.CursorInvalid", "a cursor is nothing but one that was given"),
)

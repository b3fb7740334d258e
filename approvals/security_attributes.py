"""The attributes whose change is a security change: all that a sign-in, a service, a script or a mapping reads.

`attribute_review.tsv` beside this module is the review of the whole schema, of Windows Server 2025 and of the products
most often found with it: a line for each attribute with its verdict and the reason. Sources: MS-ADA1 to MS-ADA3
(attributes), MS-ADSC (classes), MS-ADTS, MS-KILE and MS-PKCA (how they are used), MS-CRTD (certificate templates).

The verdicts: `security`; `ordinary`, which only people read; `effect`, judged by what the change does to somebody's
ability to sign in (`directory.shapes.wording.sign_in_effects`); `unwritable`, which no request writes in the schema
reviewed, and which is security where another schema lets it be written. An attribute that is not in the table is a
site's own: ordinary, unless the configuration names it (`Supervision:SecurityAttributes`) or the schema marks it
confidential.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, cast

from django.conf import settings

from audit.redact import is_credential
from core.text.messages import message

Verdict = Literal["security", "ordinary", "effect", "unwritable"]


class Review(NamedTuple):
    """What the review found of an attribute; the reason completes a sentence that begins with its name."""

    attribute: str
    verdict: Verdict
    reason: str


def _read() -> Mapping[str, Review]:
    with Path(__file__).with_name("attribute_review.tsv").open(encoding="ascii", newline="") as file:
        lines = csv.reader(file, dialect="excel-tab")
        next(lines)
        found = [Review(name, cast(Verdict, verdict), reason) for name, verdict, reason in lines]
    return MappingProxyType({review.attribute.lower(): review for review in found})


REVIEWED: Final = _read()
"""The table, by names in lower case: attribute names do not differ by case."""


def meaning_of(name: str) -> str | None:
    """What makes an attribute security, in words; None for one whose name does not.

    A credential always is. Options (`userCertificate;binary`) do not matter.
    """
    if is_credential(name):
        return message("a credential")
    bare = name.partition(";")[0].strip().lower()
    if bare in {named.lower() for named in settings.CONFIGURATION.Supervision.SecurityAttributes}:
        return message("which the configuration counts among those that decide about security")
    review = REVIEWED.get(bare)
    return message(review.reason) if review is not None and review.verdict in ("security", "unwritable") else None

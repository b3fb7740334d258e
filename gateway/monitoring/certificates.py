"""When the certificates end that connections depend on: those of domain controllers, and of the authorities trusted.

A domain controller shows its own when it is asked, so each is looked at now and then, off everybody's way. One that is
never used has its end told too: it is there for the day on which the others are away.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Literal

from cryptography import x509
from django.utils import timezone

from active_directory import Background, read_certificate
from directory.models import DirectoryConnection

SOON: Final = timedelta(days=30)
"""How long before its end people are told of it."""
_LOOK_AGAIN: Final = 3600.0
_TRY_AGAIN: Final = 300.0
_ANSWER_WITHIN: Final = 3.0
"""Seconds: until a certificate is looked at again, or a server that showed none; and that a server has for it."""

Kind = Literal["authority", "server"]


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """`name` is the URL of a domain controller, or whom an authority's certificate is for."""

    directory: str
    kind: Kind
    name: str
    at: datetime

    @property
    def is_soon(self) -> bool:
        """Whether somebody should do something about it."""
        return self.at - timezone.now() < SOON


@dataclass(frozen=True, slots=True)
class _Look:
    ends: datetime | None
    again_at: float


class Certificates:
    """What this process has seen of the servers' certificates, by URL."""

    def __init__(self) -> None:
        self._seen: dict[str, _Look] = {}
        self._background = Background("certificates")

    def ends(self, *, patience: float = 0.0) -> list[CertificateEnd]:
        """Those of the enabled connections, the next first. Servers not seen yet are waited for so many seconds."""
        known: list[CertificateEnd] = []
        rows = list(DirectoryConnection.objects.filter(enabled=True).values_list("name", "urls", "ca_certificate"))
        urls = list(dict.fromkeys(url for _, of_row, _ in rows for url in of_row))
        self._look_at(urls, patience)
        for name, of_row, authorities in rows:
            for each in x509.load_pem_x509_certificates(authorities.encode()) if authorities else ():
                subject = each.subject.rfc4514_string()
                known.append(CertificateEnd(name, "authority", subject, each.not_valid_after_utc))
            looks = ((url, self._seen.get(url)) for url in of_row)
            known += [CertificateEnd(name, "server", url, look.ends) for url, look in looks if look and look.ends]
        return sorted(known, key=lambda end: end.at)

    def _look_at(self, urls: list[str], patience: float) -> None:
        now = time.monotonic()
        due = [url for url in urls if (look := self._seen.get(url)) is None or look.again_at <= now]
        if due:
            self._background.start(partial(self._look, due))
        if any(url not in self._seen for url in due):
            self._background.wait(patience)

    def _look(self, urls: Sequence[str]) -> None:
        for url in urls:
            found = read_certificate(url, _ANSWER_WITHIN)
            before = self._seen.get(url)
            ends = found.ends if found else before.ends if before else None  # while it is away, what was seen holds
            self._seen[url] = _Look(ends, time.monotonic() + (_LOOK_AGAIN if found else _TRY_AGAIN))


certificates: Final = Certificates()
"""Of this process."""

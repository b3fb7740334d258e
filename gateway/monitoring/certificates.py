"""When the certificates of domain controllers and of trusted authorities expire.

A background thread reads the certificate of each domain controller from time to time, also of those that are only used
when the others fail.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from cryptography import x509
from django.utils import timezone

from active_directory import Background, read_certificate
from directory.models import DirectoryConnection

WARN_BEFORE = timedelta(days=30)
"""How long before a certificate expires people are warned."""
_RECHECK_SECONDS = 3600.0
_RETRY_SECONDS = 300.0
"""When to read a certificate again, and when to ask a server again that did not answer."""

_TIMEOUT_SECONDS = 3.0

Kind = Literal["authority", "server"]


@dataclass(frozen=True, slots=True)
class CertificateExpiry:
    """When a certificate expires. `name` is the URL of a domain controller, or the subject of an authority."""

    directory: str
    kind: Kind
    name: str
    at: datetime

    @property
    def expires_soon(self) -> bool:
        """Whether it is time to renew the certificate."""
        return self.at - timezone.now() < WARN_BEFORE


@dataclass(frozen=True, slots=True)
class _Reading:
    ends: datetime | None
    due_at: float


class Certificates:
    """The expiry of the certificates that this process has read from domain controllers."""

    def __init__(self) -> None:
        self._seen: dict[str, _Reading] = {}
        self._background = Background("certificates")

    def ends(self, *, wait_seconds: float = 0.0) -> list[CertificateExpiry]:
        """Return the expiries for the enabled connections, earliest first. Waits for servers that were never read."""
        known: list[CertificateExpiry] = []
        rows = list(DirectoryConnection.objects.filter(enabled=True).values_list("name", "urls", "ca_certificate"))
        urls = list(dict.fromkeys(url for _, row_urls, _ in rows for url in row_urls))
        self._refresh(urls, wait_seconds)
        for name, row_urls, authorities in rows:
            for each in x509.load_pem_x509_certificates(authorities.encode()) if authorities else ():
                subject = each.subject.rfc4514_string()
                known.append(CertificateExpiry(name, "authority", subject, each.not_valid_after_utc))
            readings = ((url, self._seen.get(url)) for url in row_urls)
            known += [CertificateExpiry(name, "server", url, look.ends) for url, look in readings if look and look.ends]
        return sorted(known, key=lambda end: end.at)

    def _refresh(self, urls: list[str], wait_seconds: float) -> None:
        now = time.monotonic()
        due = [url for url in urls if (look := self._seen.get(url)) is None or look.due_at <= now]
        if due:
            self._background.start(partial(self._read, due))
        if any(url not in self._seen for url in due):
            self._background.wait(wait_seconds)

    def _read(self, urls: Sequence[str]) -> None:
        for url in urls:
            found = read_certificate(url, _TIMEOUT_SECONDS)
            before = self._seen.get(url)
            ends = (
                found.ends if found else before.ends if before else None
            )  # keep the last reading while a server is down
            self._seen[url] = _Reading(ends, time.monotonic() + (_RECHECK_SECONDS if found else _RETRY_SECONDS))


certificates = Certificates()

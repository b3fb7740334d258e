"""The bind password belongs to where it is sent: a seal binds it to the servers, their authority and the bind name.

Whoever may edit a connection, or its row in the database, could otherwise point it at a server of their own and be sent
the password. The seal is made when somebody gives the password, is encrypted as the password is, and is compared before
the password is used: without a fitting one nothing is sent.
"""

import hashlib
import json
from typing import Final

DESTINATION_FIELDS: Final = ("urls", "start_tls", "ca_certificate", "bind_dn")
"""The fields of a connection that decide where its password goes, and as whose."""


def seal_of(*, urls: list[str], start_tls: bool, ca_certificate: str, bind_dn: str, password: str) -> str:
    """A digest of the password and its destination; neither the order of servers nor space in a certificate counts."""
    servers = sorted({str(url).lower().rstrip("/") for url in urls})
    sealed = json.dumps([servers, bool(start_tls), ca_certificate.split(), bind_dn.strip(), password])
    return hashlib.sha256(sealed.encode()).hexdigest()

"""A connection, keys and people of a gateway that runs elsewhere, made by a process of its own release."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from lab.domain import Domain
from lab.gateway import Commands


def make_accounts(gateway: Commands, domain: Domain, *, urls: Sequence[str], clients: int) -> dict[str, Any]:
    """Make `{"keys": […], "careful": […], "approver": {"username", "password"}, "administrator": {…}}`.

    There is one key and one careful key for each client. All may do everything; what is asked for with a careful one
    waits for the approver. An earlier release makes no administrator who can sign in. Raises RuntimeError.
    """
    asked = {
        "url": urls[0],  # all that an earlier release knows
        "urls": list(urls),
        "baseDn": domain.base_dn,
        "bindDn": domain.bind_dn,
        "bindPassword": domain.bind_password,
        "caCertificate": domain.ca_pem,
        "clients": clients,
    }
    said = gateway.run([sys.executable, "-m", gateway.release.account_maker], json.dumps(asked))
    accounts: dict[str, Any] = json.loads(said)
    return accounts

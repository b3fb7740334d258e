"""Makes a connection, keys and people for a gateway of any release, by a process of that release."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from lab.domain import Domain
from lab.gateway import Commands

BUDGET = 64
"""The security changes that the key with a budget may make in an hour."""


def make_accounts(gateway: Commands, domain: Domain, *, urls: Sequence[str], clients: int) -> dict[str, Any]:
    """Make `{"keys": […], "careful": […], "budgeted": …, "approver": {"username", "password"}, "administrator": {…}}`.

    Each client has one key and one careful key. All keys may do everything, but changes with a careful one wait for the
    approver, and so do those beyond the `BUDGET`. Earlier releases make neither that key nor an administrator who can
    sign in. Raises RuntimeError.
    """
    request = {
        "url": urls[0],  # for earlier releases
        "urls": list(urls),
        "baseDn": domain.base_dn,
        "bindDn": domain.bind_dn,
        "bindPassword": domain.bind_password,
        "caCertificate": domain.ca_pem,
        "clients": clients,
        "budget": BUDGET,
    }
    response = gateway.run([sys.executable, "-m", gateway.release.account_maker], json.dumps(request))
    accounts: dict[str, Any] = json.loads(response)
    return accounts

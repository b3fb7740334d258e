"""The tests' domains, which begin anew once much has happened in them.

What tests have deleted stays for months, and each search that no index answers looks through it.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from lab.directory import Directory
from lab.domain import Domain
from tests.support.ldap_clients import ClientOfTests

_MANY_CHANGES = 3000
"""After so many, renewing a domain, which takes a second, is soon worth it."""
_clients: dict[Domain, Directory] = {}


@contextmanager
def client_of(domain: Domain) -> Iterator[Directory]:
    """An independent client of a domain, as its administrator."""
    with closing(domain.connect()) as client:
        _clients[domain] = client
        yield client
        del _clients[domain]


def renew_domains(*, after: int = _MANY_CHANGES) -> None:
    """Provision those with so many changes anew, while no test or fixture has objects there."""
    for domain, client in _clients.items():
        if client.count_changes() > after:
            domain.renew()
            client.reconnect()
            ClientOfTests.forget()

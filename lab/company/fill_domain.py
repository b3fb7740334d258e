"""Writes `organization` into a domain that is not running:  ``/usr/bin/python3 fill_domain.py <directory> [users]``.

Runs under the system's Python, as `lab/samba/setup.py` does. It is one transaction, which takes about 15 s for 640
people, mostly to derive keys from their passwords. It sets times of sign-in, password and lock-out, which LDAP clients
may not write.
"""

import secrets
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ldb
from samba.dcerpc import security
from samba.ndr import ndr_unpack
from samba.samdb import SamDB
from samba.sd_utils import SDUtils

from lab.company.organization import build_organization
from lab.company.shapes import Entry, Organization
from lab.samba.setup import exists, modify, open_database

# Samba's own controls: write any pwdLastSet; write attributes that only the system may write.
ANY_PASSWORD_TIME = "local_oid:1.3.6.1.4.1.7165.4.3.20:1"
RELAX = "relax:0"
PROGRESS_EVERY = 200

# Explicit ACEs by task, as Windows' delegation wizard writes them. The GUIDs are MS-ADTS 5.1.3.2.1 (rights) and
# schemaIDGUIDs: user bf967aba, computer bf967a86, lockoutTime 28630ebf, telephoneNumber bf967a49, mobile f0f8ffa3.
USER = "bf967aba-0de6-11d0-a285-00aa003049e2"
TASKS = {
    "Reset password": [
        f"(OA;CIIO;CR;00299570-246d-11d0-a768-00aa006e0529;{USER};{{sid}})",
        f"(OA;CIIO;RPWP;bf967a0a-0de6-11d0-a285-00aa003049e2;{USER};{{sid}})",
    ],
    "Unlock": [f"(OA;CIIO;RPWP;28630ebf-41d5-11d1-a9c1-0000f80367c1;{USER};{{sid}})"],
    "Write phone numbers": [
        f"(OA;CIIO;RPWP;bf967a49-0de6-11d0-a285-00aa003049e2;{USER};{{sid}})",
        f"(OA;CIIO;RPWP;f0f8ffa3-1191-11d0-a060-00aa006c33ed;{USER};{{sid}})",
    ],
    "Create and delete users": [f"(OA;CI;CCDC;{USER};;{{sid}})"],
    "Create and delete computers": ["(OA;CI;CCDC;bf967a86-0de6-11d0-a285-00aa003049e2;;{sid})"],
    "Full control": ["(A;CI;CCDCLCSWRPWPDTLOCRSDRCWDWO;;;{sid})"],
}
PROTECTED_FROM_DELETION = "(D;;SDDT;;;WD)"


def fill(samdb: SamDB, organization: Organization) -> None:
    """Write everything, in one transaction."""
    base = samdb.domain_dn()
    for number, entry in enumerate(organization.entries):
        if number % PROGRESS_EVERY == 0:
            print(f"{number} of {len(organization.entries)} entries", flush=True)
        _add(samdb, entry, f"{entry.dn},{base}")
    for group, members in organization.members.items():
        dn = _find(samdb, group).dn
        message = ldb.Message(dn)
        values = [f"{member},{base}" for member in dict.fromkeys(members)]
        message["member"] = ldb.MessageElement(values, ldb.FLAG_MOD_ADD, "member")
        samdb.modify(message)
    descriptors = SDUtils(samdb)
    for delegation in organization.delegations:
        sid = ndr_unpack(security.dom_sid, _find(samdb, delegation.group)["objectSid"][0])
        for ace in TASKS[delegation.task]:
            descriptors.dacl_add_ace(f"{delegation.unit},{base}", ace.format(sid=sid))
    for unit in organization.protected_units:
        descriptors.dacl_add_ace(f"{unit},{base}", PROTECTED_FROM_DELETION)
    for dn in organization.deleted:
        samdb.delete(f"{dn},{base}")


def _add(samdb: SamDB, entry: Entry, dn: str) -> None:
    if exists(samdb, dn):
        return
    attributes: dict[str, str | bytes | list[str]] = dict(entry.attributes)
    history = dict(entry.history)
    controls = []
    if entry.has_password:
        # Nobody signs in with these accounts, so their passwords are not kept.
        attributes["unicodePwd"] = f'"{secrets.token_urlsafe(12)}-aA1"'.encode("utf-16-le")
        if password_set_at := history.pop("pwdLastSet", None):
            attributes["pwdLastSet"] = password_set_at
            controls = [ANY_PASSWORD_TIME]
    samdb.add({"dn": dn, **attributes}, controls=controls)
    if history:
        modify(samdb, dn, history, controls=[RELAX])


def _find(samdb: SamDB, account: str) -> ldb.Message:
    found = samdb.search(
        base=samdb.domain_dn(),
        expression=f"(sAMAccountName={ldb.binary_encode(account)})",
        attrs=["objectSid"],
    )
    return found[0]


def main() -> None:
    """Fill the domain in the directory given; a number of users may follow."""
    samdb = open_database(Path(sys.argv[1]))
    organization = build_organization(*(int(number) for number in sys.argv[2:3]), base_dn=samdb.domain_dn())
    started = time.monotonic()
    samdb.transaction_start()
    try:
        fill(samdb, organization)
    except BaseException:
        samdb.transaction_cancel()
        raise
    samdb.transaction_commit()
    print(f"{len(organization.entries)} entries written in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()

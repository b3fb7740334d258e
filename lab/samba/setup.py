"""Sets up a freshly provisioned domain before its first start: password policy, recycle bin, the gateway's account.

Runs under the system's Python, for which Debian's ``python3-samba`` is built, on the database of a stopped domain
controller:  ``/usr/bin/python3 setup.py <directory>``, with the request as JSON on standard input.
"""

import json
import sys
from pathlib import Path
from typing import Any

import ldb
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

# MS-ADTS 6.1.1.4.4.2: the GUID of the recycle bin's optional feature.
RECYCLE_BIN = "766ddcd8-acd0-445e-f3b9-a7f9b6744f2a"
NORMAL_ACCOUNT_PASSWORD_NEVER_EXPIRES = 0x10200
MINUTE = 60 * 10_000_000  # intervals are negative counts of 100 ns


def open_database(directory: Path, *options: str) -> SamDB:
    """Open the controller's database as SYSTEM, which bypasses access checks; `options` are those of ldb."""
    parameters = LoadParm()
    parameters.load(str(directory / "etc" / "smb.conf"))
    file = str(directory / "private" / "sam.ldb")
    return SamDB(url=file, session_info=system_session(), lp=parameters, options=list(options))


def set_password_policy(samdb: SamDB) -> None:
    """Enable lock-out; the rest of what provisioning sets (7 characters, complexity, 42 days) is Windows' default."""
    modify(
        samdb,
        samdb.domain_dn(),
        {"lockoutThreshold": "10", "lockoutDuration": str(-30 * MINUTE), "lockOutObservationWindow": str(-30 * MINUTE)},
    )


def enable_recycle_bin(samdb: SamDB) -> None:
    """Enable the optional feature, as writing ``enableOptionalFeature`` on the rootDSE does (MS-ADTS 3.1.1.3.3.10)."""
    message = ldb.Message(ldb.Dn(samdb, ""))
    value = f"CN=Partitions,{samdb.get_config_basedn()}:{RECYCLE_BIN}"
    message["enableOptionalFeature"] = ldb.MessageElement(value, ldb.FLAG_MOD_ADD, "enableOptionalFeature")
    samdb.modify(message)


def ensure_account(samdb: SamDB, *, name: str, parent: str, groups: list[str], description: str) -> None:
    """Create an enabled account without a usable password, its unit and its memberships."""
    base = samdb.domain_dn()
    unit = f"{parent},{base}"
    if not exists(samdb, unit):
        samdb.add({"dn": unit, "objectClass": "organizationalUnit"})
    dn = f"CN={name},{unit}"
    if exists(samdb, dn):
        return
    samdb.add(
        {
            "dn": dn,
            "objectClass": "user",
            "sAMAccountName": name,
            "userPrincipalName": f"{name}@{samdb.domain_dns_name()}",
            "displayName": name,
            "description": description,
            "userAccountControl": str(NORMAL_ACCOUNT_PASSWORD_NEVER_EXPIRES | 0x0002),
        }
    )
    for group in groups:
        samdb.add_remove_group_members(group, [name], add_members_operation=True)


def set_password(samdb: SamDB, *, name: str, password: str) -> None:
    """Set an account's password and enable it."""
    query = f"(&(objectClass=user)(sAMAccountName={ldb.binary_encode(name)}))"
    samdb.setpassword(query, password, force_change_at_next_login=False)
    samdb.enable_account(query)


def exists(samdb: SamDB, dn: str) -> bool:
    """Whether an entry of that name exists."""
    try:
        return bool(samdb.search(base=dn, scope=ldb.SCOPE_BASE, attrs=["1.1"]))
    except ldb.LdbError as error:
        if error.args[0] == ldb.ERR_NO_SUCH_OBJECT:
            return False
        raise


def modify(samdb: SamDB, dn: Any, replacements: dict[str, str], controls: list[str] | None = None) -> None:
    """Replace attributes of one entry."""
    message = ldb.Message(ldb.Dn(samdb, str(dn)))
    for attribute, value in replacements.items():
        message[attribute] = ldb.MessageElement(value, ldb.FLAG_MOD_REPLACE, attribute)
    samdb.modify(message, controls=controls or [])


def main() -> None:
    """Apply the request on standard input in one transaction."""
    request = json.load(sys.stdin)
    samdb = open_database(Path(sys.argv[1]))
    samdb.transaction_start()
    try:
        if request["initial"]:
            set_password_policy(samdb)
            if request["recycleBin"]:
                enable_recycle_bin(samdb)
        for account in request["accounts"]:
            ensure_account(samdb, **account)
        for name, password in request["passwords"].items():
            set_password(samdb, name=name, password=password)
    except BaseException:
        samdb.transaction_cancel()
        raise
    samdb.transaction_commit()


if __name__ == "__main__":
    main()

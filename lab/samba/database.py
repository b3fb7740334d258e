"""Writes what LDAP clients may not write straight into the domain controller's database.

That is times in the past, trusts and their accounts, and the security descriptor of deleted objects' container.
"""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.directory import Directory, Target, filetime
from lab.domain import Domain
from lab.samba.controller import SYSTEM_PYTHON

# Runs under the system's Python, for which Debian's python3-samba is built, beside the running domain controller. The
# controls are Samba's own: DSDB_CONTROL_PASSWORD_BYPASS_LAST_SET_OID and DSDB_CONTROL_PERMIT_INTERDOMAIN_TRUST_UAC_OID.
_SCRIPT = """
import base64, json, sys
import ldb
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

directory = sys.argv[1]
parameters = LoadParm()
parameters.load(directory + "/etc/smb.conf")
samdb = SamDB(url=directory + "/private/sam.ldb", session_info=system_session(), lp=parameters)
request = json.load(sys.stdin)
for dn, values in request.pop("added", {}).items():
    samdb.add({"dn": dn, **values})
for dn, descriptor in request.pop("descriptors", {}).items():
    message = ldb.Message(ldb.Dn(samdb, dn))
    value = base64.b64decode(descriptor)
    message["d"] = ldb.MessageElement(value, ldb.FLAG_MOD_REPLACE, "nTSecurityDescriptor")
    samdb.modify(message, controls=["show_deleted:1"])
for dn, values in request.items():
    message = ldb.Message(ldb.Dn(samdb, dn))
    for name, value in values.items():
        message[name] = ldb.MessageElement(value, ldb.FLAG_MOD_REPLACE, name)
    controls = {"pwdLastSet": "20", "userAccountControl": "23"}
    samdb.modify(message, controls=[f"local_oid:1.3.6.1.4.1.7165.4.3.{controls[name]}:0" for name in values])
"""
_HOLD = """
import sys
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

parameters = LoadParm()
parameters.load(sys.argv[1] + "/etc/smb.conf")
samdb = SamDB(url=sys.argv[1] + "/private/sam.ldb", session_info=system_session(), lp=parameters)
samdb.transaction_start()
print("held", flush=True)
sys.stdin.readline()
samdb.transaction_cancel()
"""
_DAY = 86_400.0


@contextmanager
def busy_with_a_write(domain: Domain) -> Iterator[Callable[[], None]]:
    """Keep the domain controller busy with a long write until the block ends, or the yielded function is called.

    It accepts other writes but answers them only after this one; readers see the state before it.
    """
    command = [SYSTEM_PYTHON, "-c", _HOLD, str(domain.controller.directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "held\n":
            raise RuntimeError("the domain controller's database cannot be held")
        stdin = process.stdin

        def finish() -> None:
            if process.poll() is None and not stdin.closed:
                stdin.close()
                process.wait(60)

        try:
            yield finish
        finally:
            finish()


def waiting_writers(domain: Domain) -> list[int]:
    """The processes of the domain controller that wait for their turn to write."""
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]  # proc(5)
    processes = (int(words[words.index("->") + 4]) for words in waiting)
    return [process for process in processes if _group_of(process) == domain.controller.pid]


def _group_of(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None


def overwrite(domain: Domain, directory: Directory, values: Mapping[Target, Mapping[str, str]]) -> None:
    """Replace pwdLastSet and userAccountControl of accounts."""
    _run(domain, {directory.dn(target): dict(attributes) for target, attributes in values.items()})


def add_trust(domain: Domain, name: str) -> str:
    """Add a trust of another domain, which LDAP clients cannot add; return its distinguished name."""
    dn = f"CN={name},CN=System,{domain.base_dn}"
    trust = {"objectClass": "trustedDomain", "trustPartner": name, "flatName": name.partition(".")[0].upper()}
    directions = {"trustDirection": "1", "trustType": "2", "trustAttributes": "8"}
    _run(domain, {"added": {dn: {**trust, **directions}}})
    return dn


def set_descriptor(domain: Domain, dn: str, descriptor: bytes) -> None:
    """Write the security descriptor of an object that not even the domain's administrator may change."""
    _run(domain, {"descriptors": {dn: base64.b64encode(descriptor).decode()}})


def _run(domain: Domain, request: Mapping[str, object]) -> None:
    command = [SYSTEM_PYTHON, "-c", _SCRIPT, str(domain.controller.directory)]
    subprocess.run(command, input=json.dumps(request), text=True, check=True, capture_output=True)


def age_passwords(domain: Domain, directory: Directory, days: Mapping[Target, float]) -> None:
    """Set the ages of accounts' passwords, in days."""
    overwrite(domain, directory, {target: {"pwdLastSet": filetime(-age * _DAY)} for target, age in days.items()})

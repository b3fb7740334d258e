"""What the domain controller keeps to itself over LDAP, written into its database: moments past, accounts of trusts."""

import json
import subprocess
from collections.abc import Mapping

from demo.domain_controller import SYSTEM_PYTHON
from tests.support.directory import Directory, Target, filetime
from tests.support.domain import Domain

# Run by the system's Python, which Debian's python3-samba belongs to, beside the running domain controller. The
# controls are Samba's own: DSDB_CONTROL_PASSWORD_BYPASS_LAST_SET_OID and DSDB_CONTROL_PERMIT_INTERDOMAIN_TRUST_UAC_OID.
_SCRIPT = """
import json, sys
import ldb
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

directory = sys.argv[1]
parameters = LoadParm()
parameters.load(directory + "/etc/smb.conf")
samdb = SamDB(url=directory + "/private/sam.ldb", session_info=system_session(), lp=parameters)
for dn, values in json.load(sys.stdin).items():
    message = ldb.Message(ldb.Dn(samdb, dn))
    for name, value in values.items():
        message[name] = ldb.MessageElement(value, ldb.FLAG_MOD_REPLACE, name)
    controls = {"pwdLastSet": "20", "userAccountControl": "23"}
    samdb.modify(message, controls=[f"local_oid:1.3.6.1.4.1.7165.4.3.{controls[name]}:0" for name in values])
"""
_DAY = 86_400.0


def overwrite(domain: Domain, directory: Directory, values: Mapping[Target, Mapping[str, str]]) -> None:
    """Replace pwdLastSet and userAccountControl of accounts."""
    request = json.dumps({directory.dn(target): dict(attributes) for target, attributes in values.items()})
    command = [SYSTEM_PYTHON, "-c", _SCRIPT, str(domain.controller.directory)]
    subprocess.run(command, input=request, text=True, check=True, capture_output=True)


def age_passwords(domain: Domain, directory: Directory, days: Mapping[Target, float]) -> None:
    """Make the passwords of accounts as many days old."""
    overwrite(domain, directory, {target: {"pwdLastSet": filetime(-age * _DAY)} for target, age in days.items()})

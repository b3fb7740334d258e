"""Security descriptors as Samba's own library reads and writes them: the second opinion of the tests.

It lives in the system's Python (Debian's ``python3-samba``), so it is asked in a process of its own.
"""

import base64
import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any

from lab.directory import Directory, Target
from lab.samba.controller import SYSTEM_PYTHON

DOMAIN_SID = "S-1-5-21-1-2-3"

_PROGRAM = """
import base64, json, sys
from samba.dcerpc import security
from samba.ndr import ndr_unpack, ndr_pack
request = json.load(sys.stdin)
domain = security.dom_sid(request["domainSid"])
OBJECT_TYPES = (5, 6, 7)

def listed(acl):
    aces = []
    for ace in acl.aces if acl else []:
        objects = [None, None]
        if ace.type in OBJECT_TYPES:
            if ace.object.flags & 1: objects[0] = str(ace.object.type)
            if ace.object.flags & 2: objects[1] = str(ace.object.inherited_type)
        aces.append([ace.type, ace.flags, ace.access_mask, str(ace.trustee), *objects])
    return aces

if "sddl" in request:
    packed = [ndr_pack(security.descriptor.from_sddl(text, domain)) for text in request["sddl"]]
    print(json.dumps([base64.b64encode(one).decode() for one in packed]))
else:
    answer = []
    for text in request["descriptors"]:
        sd = ndr_unpack(security.descriptor, base64.b64decode(text))
        answer.append({
            "owner": str(sd.owner_sid), "group": str(sd.group_sid), "control": sd.type,
            "dacl": listed(sd.dacl), "sacl": listed(sd.sacl), "sddl": sd.as_sddl(domain),
        })
    print(json.dumps(answer))
"""


def _ask(request: dict[str, Any]) -> list[Any]:
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", _PROGRAM], input=json.dumps(request), capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


def pack(*sddl: str, domain_sid: str = DOMAIN_SID) -> list[bytes]:
    """The descriptors that these texts describe, as the directory holds them."""
    return [base64.b64decode(one) for one in _ask({"sddl": sddl, "domainSid": domain_sid})]


def unpack(descriptors: Sequence[bytes], domain_sid: str = DOMAIN_SID) -> list[dict[str, Any]]:
    """Owner, group, control, entries and text of each."""
    raw = [base64.b64encode(one).decode() for one in descriptors]
    return _ask({"descriptors": raw, "domainSid": domain_sid})


_RIGHTS = re.compile(r"(?<=\()(\w+;\w*);([^;]*);")


def same_order(sddl: str) -> str:
    """The text with the rights of each entry in one order: it differs between versions of Samba, as do numbers."""

    def ordered(match: re.Match[str]) -> str:
        rights = match[2]
        if rights.startswith("0x"):
            return f"{match[1]};{int(rights, 16):#x};"
        return f"{match[1]};{''.join(sorted(re.findall('..', rights)))};"

    return _RIGHTS.sub(ordered, sddl)


def add_entries(directory: Directory, target: Target, *entries: str, domain_sid: str) -> None:
    """Add entries such as ``(A;;RP;;;WD)`` to an object's access control list, before those it has."""
    (shown,) = unpack([directory.descriptor(target)], domain_sid)
    sddl = shown["sddl"]
    start = sddl.index("D:") + 2
    while sddl[start] != "(":
        start += 1
    (changed,) = pack(sddl[:start] + "".join(entries) + sddl[start:], domain_sid=domain_sid)
    directory.set_access_control(target, changed)

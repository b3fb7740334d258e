#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep the members of a group as they shall be."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: membership
short_description: Keep the members of a group of Active Directory as they shall be
description:
  - Adds members to a group and removes them, through the Directory Management Gateway.
options:
  group:
    description:
      - The group, by objectGUID, account name, name or distinguished name.
    type: str
    required: true
  members:
    description:
      - The members, each by objectGUID, account name, user principal name, name or distinguished name.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(present) adds those who are missing, V(absent) removes those who are there.
      - V(exact) does both, so that the group has exactly these direct members.
    type: str
    choices: [present, absent, exact]
    default: present
  for:
    description:
      - How long the change lasts, such as V(8h) or V(2d); then the gateway undoes it by itself.
      - Those who are members already are left as they are, with or without an end.
    type: str
  until:
    description:
      - When the change ends, such as V(2027-01-31T18:00), in place of O(for).
    type: str
extends_documentation_fragment:
  - directory_gateway.ad.gateway
author:
  - The maintainers of the Directory Management Gateway (@directory-management-gateway)
"""

EXAMPLES = r"""
- name: Ada and Grace build the engine
  directory_gateway.ad.membership:
    group: Project Engine
    members: [ada, grace]

- name: Grace repairs the directory today
  directory_gateway.ad.membership:
    group: Domain Admins
    members: [grace]
    for: 8h

- name: Nobody else administers the domain
  directory_gateway.ad.membership:
    group: Domain Admins
    members: [Administrator]
    state: exact
    reason: Nightly check
"""

RETURN = r"""
added:
  description: The objectGUIDs of those who were not members.
  returned: always
  type: list
  elements: str
removed:
  description: The objectGUIDs of those who were members.
  returned: always
  type: list
  elements: str
pending_request:
  description: The change request that waits for a person's decision; of several, the last.
  returned: when a change is held and not waited for
  type: str
pending_requests:
  description: All change requests of the task that wait.
  returned: when a change is held and not waited for
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.directory_gateway.ad.plugins.module_utils.gateway import COMMON, Failure, Task


def main() -> None:
    options = {
        "group": {"type": "str", "required": True},
        "members": {"type": "list", "elements": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent", "exact"], "default": "present"},
        "for": {"type": "str"},
        "until": {"type": "str"},
    }
    module = AnsibleModule({**COMMON, **options}, supports_check_mode=True, mutually_exclusive=[("for", "until")])
    task = Task(module)
    try:
        _manage(task, module.params)
    except Failure as failure:
        task.fail(failure)


def _manage(task, given):
    (group,) = task.find_ids("groups", [given["group"]])
    wanted = set(task.find_ids("objects", given["members"]))
    path = f"/api/ad/groups/{group}/members"
    present = _members(task, path)
    added = [] if given["state"] == "absent" else sorted(wanted - present)
    removed = {"present": set(), "absent": wanted & present, "exact": present - wanted}[given["state"]]
    body = {"add": added, "remove": sorted(removed)}
    if added or removed:
        task.change("groups.change-members", "POST", path, body=body, target={"id": group})
    task.end(added=added, removed=sorted(removed))


def _members(task, path):
    """The objectGUIDs of the direct members, page after page."""
    found, cursor = set(), None
    while True:
        page = task.gateway.get(path, pageSize=1000, fields="id", **({"cursor": cursor} if cursor else {}))
        found.update(each["id"] for each in page["items"])
        cursor = page["nextCursor"]
        if cursor is None:
            return found


if __name__ == "__main__":
    main()

#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep a group as it shall be."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: group
short_description: Keep a group of Active Directory as it shall be
description:
  - Creates, changes, moves, renames and deletes a group through the Directory Management Gateway.
  - Its members are set by M(directory_gateway.ad.membership).
options:
  sam_account_name:
    description:
      - The account name of one that is created. To change it, set C(sAMAccountName) in O(attributes).
    type: str
  scope:
    description:
      - The scope of the group. One that is created without it is global.
    type: str
    choices: [global, domainLocal, universal]
  type:
    description:
      - The type of the group. One that is created without it is a security group.
    type: str
    choices: [security, distribution]
extends_documentation_fragment:
  - directory_gateway.ad.gateway
  - directory_gateway.ad.gateway.object
author:
  - The maintainers of the Directory Management Gateway (@directory-management-gateway)
"""

EXAMPLES = r"""
- name: There is a group for the project
  directory_gateway.ad.group:
    name: Project Engine
    parent: OU=Groups,DC=corp,DC=example
    scope: global
    attributes:
      description: Who builds the engine
"""

RETURN = r"""
object:
  description: The object's record as the gateway shows it, null where there is none yet.
  returned: when the state is present
  type: dict
  sample:
    id: 4fae3d03-85d3-4ed8-a8aa-cb126df8b414
    distinguishedName: CN=Project Engine,OU=Groups,DC=corp,DC=example
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
from ansible_collections.directory_gateway.ad.plugins.module_utils.gateway import COMMON, Task
from ansible_collections.directory_gateway.ad.plugins.module_utils.objects import (
    OBJECT,
    OBJECT_RULES,
    manage,
    without_none,
)


def main() -> None:
    options = {
        "sam_account_name": {"type": "str"},
        "scope": {"type": "str", "choices": ["global", "domainLocal", "universal"]},
        "type": {"type": "str", "choices": ["security", "distribution"]},
    }
    module = AnsibleModule({**COMMON, **OBJECT, **options}, **OBJECT_RULES)
    kind = without_none({"scope": module.params["scope"], "type": module.params["type"]})
    creation = kind | without_none({"samAccountName": module.params["sam_account_name"]})
    manage(Task(module), "groups", update={"group": kind} if kind else {}, creation=creation)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep a computer account as it shall be."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: computer
short_description: Keep a computer account of Active Directory as it shall be
description:
  - Creates, changes, moves, renames, enables, disables and deletes a computer account through the Directory Management
    Gateway.
extends_documentation_fragment:
  - directory_gateway.ad.gateway
  - directory_gateway.ad.gateway.object
  - directory_gateway.ad.gateway.account
author:
  - The maintainers of the Directory Management Gateway (@directory-management-gateway)
"""

EXAMPLES = r"""
- name: The account is there before the computer joins
  directory_gateway.ad.computer:
    name: WS-0815
    parent: OU=Workstations,DC=corp,DC=example
    enabled: true
"""

RETURN = r"""
object:
  description: The object's record as the gateway shows it, null where there is none yet.
  returned: when the state is present
  type: dict
  sample:
    id: 4fae3d03-85d3-4ed8-a8aa-cb126df8b414
    distinguishedName: CN=WS-0815,OU=Workstations,DC=corp,DC=example
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
    ACCOUNT,
    OBJECT,
    OBJECT_RULES,
    manage_account,
)


def main() -> None:
    module = AnsibleModule({**COMMON, **OBJECT, **ACCOUNT}, **OBJECT_RULES)
    manage_account(Task(module), "computers")


if __name__ == "__main__":
    main()

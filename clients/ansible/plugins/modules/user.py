#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep a user of the directory as it shall be."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: user
short_description: Keep a user of Active Directory as it shall be
description:
  - Creates, changes, moves, renames, enables, disables and deletes a user through the Directory Management Gateway.
extends_documentation_fragment:
  - directory_gateway.ad.gateway
  - directory_gateway.ad.gateway.object
  - directory_gateway.ad.gateway.account
author:
  - The maintainers of the Directory Management Gateway (@directory-management-gateway)
"""

EXAMPLES = r"""
- name: Ada is in Engineering
  directory_gateway.ad.user:
    name: Ada Lovelace
    parent: OU=Engineering,DC=corp,DC=example
    sam_account_name: ada
    attributes:
      title: Countess
      department: Engineering
    reason: Ticket 4711

- name: Grace has left
  directory_gateway.ad.user:
    identity: grace
    enabled: false
    wait: true
"""

RETURN = r"""
object:
  description: The object's record as the gateway shows it, null where there is none yet.
  returned: when the state is present
  type: dict
  sample:
    id: 4fae3d03-85d3-4ed8-a8aa-cb126df8b414
    distinguishedName: CN=Ada Lovelace,OU=Engineering,DC=corp,DC=example
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
    manage_account(Task(module), "users")


if __name__ == "__main__":
    main()

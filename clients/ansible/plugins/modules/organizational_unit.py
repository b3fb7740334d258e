#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep an organizational unit as it shall be."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: organizational_unit
short_description: Keep an organizational unit of Active Directory as it shall be
description:
  - Creates, changes, moves, renames and deletes an organizational unit through the Directory Management Gateway.
extends_documentation_fragment:
  - directory_gateway.ad.gateway
  - directory_gateway.ad.gateway.object
author:
  - The maintainers of the Directory Management Gateway (@directory-management-gateway)
"""

EXAMPLES = r"""
- name: There is a unit for visitors
  directory_gateway.ad.organizational_unit:
    name: Visitors
    parent: DC=corp,DC=example
    attributes:
      description: People who stay for less than a month
"""

RETURN = r"""
object:
  description: The object's record as the gateway shows it, null where there is none yet.
  returned: when the state is present
  type: dict
  sample:
    id: 4fae3d03-85d3-4ed8-a8aa-cb126df8b414
    distinguishedName: OU=Visitors,DC=corp,DC=example
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
from ansible_collections.directory_gateway.ad.plugins.module_utils.objects import OBJECT, OBJECT_RULES, manage


def main() -> None:
    manage(Task(AnsibleModule({**COMMON, **OBJECT}, **OBJECT_RULES)), "organization-units", rdn="OU")


if __name__ == "__main__":
    main()

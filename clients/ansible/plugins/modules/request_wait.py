#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Wait until a change that was held is made."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: request_wait
short_description: Wait until a change that was held by the gateway is made
description:
  - Waits until a person has decided a change request and the change is made. The task fails if it is not made.
options:
  id:
    description:
      - The change request, as RV(directory_gateway.ad.user#module:pending_request) of another task has it.
    type: str
    required: true
extends_documentation_fragment:
  - directory_gateway.ad.gateway
author:
  - The maintainers of the Directory Management Gateway (@directory-management-gateway)
"""

EXAMPLES = r"""
- name: Grace is disabled if somebody agrees
  directory_gateway.ad.user:
    identity: grace
    enabled: false
  register: left

- name: Wait for the decision
  directory_gateway.ad.request_wait:
    id: "{{ left.pending_request }}"
    wait_timeout: 86400
  when: left.pending_request is defined
"""

RETURN = r"""
request:
  description: The change request as it ended.
  returned: when it was made
  type: dict
  sample:
    status: applied
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.directory_gateway.ad.plugins.module_utils.gateway import COMMON, Failure, Task


def main() -> None:
    module = AnsibleModule({**COMMON, "id": {"type": "str", "required": True}}, supports_check_mode=True)
    task = Task(module)
    try:
        request = task.wait_for(module.params["id"])
    except Failure as failure:
        task.fail(failure)
    else:
        task.end(request=request)


if __name__ == "__main__":
    main()

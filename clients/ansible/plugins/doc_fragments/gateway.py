"""The options that several modules have."""

from __future__ import annotations


class ModuleDocFragment:
    """How the gateway is reached and what to do with changes that wait; objects of the directory; accounts."""

    DOCUMENTATION = r"""
options:
  gateway_url:
    description:
      - The gateway's address. Without it the environment variable E(GATEWAY_URL), or what C(dirgate login) kept.
    type: str
  gateway_key:
    description:
      - The API key. Without it E(GATEWAY_KEY_FILE) or E(GATEWAY_KEY), or what C(dirgate login) kept for the address.
    type: str
  client_id:
    description:
      - The Client ID of the directory, for a key that is linked to several.
    type: str
  ca_file:
    description:
      - A file with the certificate authority of the gateway's certificate.
    type: path
  reason:
    description:
      - Why the change is made. It goes on record, and approvers read it.
    type: str
  wait:
    description:
      - Whether to wait until a person has decided a change that is held, and it has been made.
      - A change that is rejected, or fails then, fails the task.
    type: bool
    default: false
  wait_timeout:
    description:
      - For how many seconds to wait. A change that still waits then fails the task.
    type: int
    default: 3600
requirements:
  - dirgate
attributes:
  check_mode:
    description: The gateway says what each change would do, and changes nothing.
    support: full
  diff_mode:
    description: The values before and after, as the gateway sees them in the directory.
    support: full
"""

    OBJECT = r"""
options:
  name:
    description:
      - The name of the object. Together with O(parent) it says which object is meant, unless O(identity) does.
      - A object that O(identity) finds is renamed to it.
    type: str
  parent:
    description:
      - The distinguished name of the container or organizational unit. A object that O(identity) finds is moved there.
    type: str
  identity:
    description:
      - Which object is meant, by objectGUID, account name, user principal name, name or distinguished name.
    type: str
  state:
    description:
      - Whether there shall be such a object.
    type: str
    choices: [present, absent]
    default: present
  attributes:
    description:
      - Attributes by their LDAP names, each with the value or the list of all values that it shall have.
      - An attribute without a value, or with an empty list, is cleared. Others stay as they are.
    type: dict
    default: {}
"""

    ACCOUNT = r"""
options:
  sam_account_name:
    description:
      - The account name of one that is created. To change it, set C(sAMAccountName) in O(attributes).
    type: str
  user_principal_name:
    description:
      - The user principal name of one that is created. To change it, set C(userPrincipalName) in O(attributes).
    type: str
  password:
    description:
      - The password of one that is created. It is not changed afterwards.
    type: str
  enabled:
    description:
      - Whether the account is enabled. One that is created without it is disabled.
    type: bool
  expires_at:
    description:
      - When the account expires, in RFC 3339 with an offset, or V(never).
    type: str
  password_never_expires:
    description:
      - Whether the password never expires.
    type: bool
  must_change_password:
    description:
      - Whether the password must be changed at the next sign-in.
    type: bool
"""

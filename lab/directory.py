"""An LDAP client for tests, based only on python-ldap and so independent of the gateway's client."""

import secrets
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ldap
import ldap.dn
import ldap.modlist
from ldap.controls import LDAPControl
from ldap.controls.libldap import SimplePagedResultsControl

Values = str | bytes | Sequence[str | bytes]
Target = str | uuid.UUID
Connection = Any  # python-ldap has no types
"""SimpleLDAPObject of python-ldap."""

SHOW_DELETED = LDAPControl("1.2.840.113556.1.4.417", True)
TREE_DELETE = LDAPControl("1.2.840.113556.1.4.805", True)
# Owner, group and DACL (7), the DACL alone (4), and the owner alone (1), as the BER sequence of one integer.
SD_FLAGS, SD_FLAGS_DACL, SD_FLAGS_OWNER = (
    LDAPControl("1.2.840.113556.1.4.801", True, encodedControlValue=b"\x30\x03\x02\x01" + bytes([flags]))
    for flags in (7, 4, 1)
)

ENABLED, DISABLED, PASSWORD_NOT_REQUIRED = 0x0200, 0x0202, 0x0020
WORKSTATION = 0x1000
GLOBAL_SECURITY_GROUP = -0x7FFFFFFE  # ADS_GROUP_TYPE_GLOBAL | SECURITY_ENABLED as a signed 32-bit integer
PASSWORD = "Correct-Horse-9"


class Directory:
    """One connection, whose python-ldap object is public. Targets are distinguished names or objectGUIDs."""

    def __init__(self, *, url: str, ca_file: str, bind_dn: str, bind_password: str, base_dn: str) -> None:
        self.base_dn = base_dn
        self._login = (url, ca_file, bind_dn, bind_password)
        self.connection = self._connect()
        self._changes_before = self._count_all_changes()

    def reconnect(self) -> None:
        """Connect again, after the domain controller was restarted or paused."""
        self.connection.unbind_s()
        self.connection = self._connect()

    def read(self, target: Target, *attributes: str, deleted: bool = False) -> dict[str, list[bytes]]:
        """All attributes of an entry (or those named), raising ``ldap.NO_SUCH_OBJECT``."""
        controls = [SHOW_DELETED] if deleted else []
        found = self.connection.search_ext_s(
            _name(target), ldap.SCOPE_BASE, attrlist=list(attributes) or ["*"], serverctrls=controls
        )
        return dict(found[0][1])

    def text(self, target: Target, attribute: str) -> str | None:
        """The first value of an attribute as text, None when there is none."""
        values = self.read(target, attribute).get(attribute)
        return values[0].decode() if values else None

    def dn(self, target: Target) -> str:
        """The entry's current distinguished name."""
        found = self.connection.search_s(_name(target), ldap.SCOPE_BASE, attrlist=["1.1"])
        return str(found[0][0])

    def guid(self, target: Target) -> uuid.UUID:
        """The entry's objectGUID."""
        return uuid.UUID(bytes_le=self.read(target, "objectGUID")["objectGUID"][0])

    def sid(self, target: Target) -> str:
        """The entry's objectSid, ``S-1-5-…``."""
        value = self.read(target, "objectSid")["objectSid"][0]
        parts = (value[start : start + 4] for start in range(8, len(value), 4))
        numbers = (int.from_bytes(part, "little") for part in parts)
        return "-".join(["S-1", str(int.from_bytes(value[2:8], "big")), *map(str, numbers)])

    def exists(self, target: Target) -> bool:
        """Whether the entry is there."""
        try:
            self.read(target, "1.1")
        except ldap.NO_SUCH_OBJECT:
            return False
        return True

    def search(
        self, query: str, *attributes: str, base: str | None = None, scope: int = ldap.SCOPE_SUBTREE
    ) -> dict[str, dict[str, list[bytes]]]:
        """All matching entries by distinguished name."""
        page = SimplePagedResultsControl(True, size=500, cookie="")
        entries: dict[str, dict[str, list[bytes]]] = {}
        while True:
            message = self.connection.search_ext(
                base or self.base_dn, scope, query, list(attributes) or ["*"], serverctrls=[page]
            )
            _, rows, _, controls = self.connection.result3(message)
            entries.update({dn: values for dn, values in rows if dn is not None})
            page.cookie = controls[0].cookie
            if not page.cookie:
                return entries

    def is_enabled(self, target: Target) -> bool:
        """Whether the account may sign in, as far as its own flag goes."""
        return not int(self.read(target, "userAccountControl")["userAccountControl"][0]) & 0x0002

    def members(self, group: Target) -> set[str]:
        """The distinguished names of the direct members."""
        return {value.decode() for value in self.read(group, "member").get("member", [])}

    def add(self, dn: str, attributes: Mapping[str, Values]) -> uuid.UUID:
        """Add an entry as given."""
        self.connection.add_s(dn, [(name, _encode(values)) for name, values in attributes.items()])
        return self.guid(dn)

    def add_unit(self, name: str, *, parent: str | None = None, **attributes: Values) -> str:
        """Add an organizational unit and return its distinguished name."""
        dn = f"OU={ldap.dn.escape_dn_chars(name)},{parent or self.base_dn}"
        self.add(dn, {"objectClass": "organizationalUnit", **attributes})
        return dn

    def add_user(
        self,
        name: str | None = None,
        *,
        parent: str,
        password: str | None = None,
        enabled: bool = True,
        **attributes: Values,
    ) -> uuid.UUID:
        """Add a user. Without a password, PASSWD_NOTREQD lets it be enabled, which saves 15 ms."""
        name = name or random_name("user")
        control = (ENABLED if enabled else DISABLED) | (0 if password else PASSWORD_NOT_REQUIRED)
        entry: dict[str, Values] = {
            "objectClass": "user",
            "sAMAccountName": random_name("u"),
            "userAccountControl": str(control),
            **attributes,
        }
        if password:
            entry["unicodePwd"] = f'"{password}"'.encode("utf-16-le")
        return self.add(f"CN={ldap.dn.escape_dn_chars(name)},{parent}", entry)

    def add_computer(
        self, name: str | None = None, *, parent: str, enabled: bool = True, **attributes: Values
    ) -> uuid.UUID:
        """Add a workstation account."""
        name = name or random_name("pc")
        control = WORKSTATION | PASSWORD_NOT_REQUIRED | (0 if enabled else 0x0002)
        entry: dict[str, Values] = {
            "objectClass": "computer",
            "sAMAccountName": f"{name[:15].upper()}$",
            "userAccountControl": str(control),
            **attributes,
        }
        return self.add(f"CN={ldap.dn.escape_dn_chars(name)},{parent}", entry)

    def add_group(
        self,
        name: str | None = None,
        *,
        parent: str,
        members: Iterable[Target] = (),
        group_type: int = GLOBAL_SECURITY_GROUP,
        **attributes: Values,
    ) -> uuid.UUID:
        """Add a group with its members."""
        name = name or random_name("group")
        entry: dict[str, Values] = {
            "objectClass": "group",
            "sAMAccountName": random_name("g"),
            "groupType": str(group_type),
            **attributes,
        }
        if resolved := [self.dn(member) for member in members]:
            entry["member"] = resolved
        return self.add(f"CN={ldap.dn.escape_dn_chars(name)},{parent}", entry)

    def add_contacts(self, count: int, *, parent: str) -> list[str]:
        """Add contacts, the cheapest kind of member, and return their distinguished names."""
        names = [f"CN=contact {number},{parent}" for number in range(count)]
        for message in [self.connection.add_ext(dn, [("objectClass", [b"contact"])]) for dn in names]:
            self.connection.result3(message)
        return names

    def modify(self, target: Target, **replacements: Values | None) -> None:
        """Replace attributes; None removes one. Names with hyphens are passed as ``**{"msDS-…": value}``."""
        changes = [
            (ldap.MOD_REPLACE, name, None if values is None else _encode(values))
            for name, values in replacements.items()
        ]
        self.connection.modify_s(_name(target), changes)

    def add_values(self, target: Target, **values: Values) -> None:
        """Add values to attributes, such as members to a group."""
        self.connection.modify_s(
            _name(target), [(ldap.MOD_ADD, name, _encode(added)) for name, added in values.items()]
        )

    def remove_values(self, target: Target, **values: Values) -> None:
        """Remove values from attributes, such as members from a group."""
        self.connection.modify_s(
            _name(target), [(ldap.MOD_DELETE, name, _encode(removed)) for name, removed in values.items()]
        )

    def descriptor(self, target: Target) -> bytes:
        """The entry's security descriptor: owner, group and access control list."""
        found = self.connection.search_ext_s(
            _name(target), ldap.SCOPE_BASE, attrlist=["nTSecurityDescriptor"], serverctrls=[SD_FLAGS]
        )
        descriptor: bytes = found[0][1]["nTSecurityDescriptor"][0]
        return descriptor

    def set_access_control(self, target: Target, descriptor: bytes) -> None:
        """Write the access control list of a descriptor; the domain controller adds what is inherited."""
        self.connection.modify_ext_s(
            _name(target), [(ldap.MOD_REPLACE, "nTSecurityDescriptor", [descriptor])], serverctrls=[SD_FLAGS_DACL]
        )

    def set_owner(self, target: Target, descriptor: bytes) -> None:
        """Give the entry the owner of a descriptor."""
        self.connection.modify_ext_s(
            _name(target), [(ldap.MOD_REPLACE, "nTSecurityDescriptor", [descriptor])], serverctrls=[SD_FLAGS_OWNER]
        )

    def move(self, target: Target, *, parent: str) -> None:
        """Put the entry under another parent."""
        dn = self.dn(target)
        relative, _ = split_dn(dn)
        self.connection.rename_s(dn, relative, newsuperior=parent)

    def rename(self, target: Target, name: str) -> None:
        """Give the entry another name under the same parent."""
        dn = self.dn(target)
        attribute = dn.partition("=")[0]
        self.connection.rename_s(dn, f"{attribute}={ldap.dn.escape_dn_chars(name)}")

    def delete(self, target: Target, *, recursive: bool = False) -> None:
        """Delete the entry; with ``recursive`` also everything below it."""
        self.connection.delete_ext_s(self.dn(target), serverctrls=[TREE_DELETE] if recursive else [])

    def can_sign_in(self, target: Target, password: str) -> bool:
        """Whether a bind with this password succeeds."""
        url, ca_file, _, _ = self._login
        connection = open_connection(url, ca_file)
        try:
            connection.simple_bind_s(self.dn(target), password)
        except ldap.INVALID_CREDENTIALS:
            return False
        finally:
            connection.unbind_s()
        return True

    def lock_out(self, target: Target) -> None:
        """Bind with a wrong password until the domain's policy locks the account."""
        for _ in range(10):
            self.can_sign_in(target, "wrong")

    def count_changes(self) -> int:
        """The number of changes that the domain controller has made since this client first connected."""
        return self._count_all_changes() - self._changes_before

    def _count_all_changes(self) -> int:
        return int(self.read("", "highestCommittedUSN")["highestCommittedUSN"][0])

    def close(self) -> None:
        """End the connection."""
        self.connection.unbind_s()

    def _connect(self) -> Connection:
        url, ca_file, bind_dn, bind_password = self._login
        connection = open_connection(url, ca_file)
        connection.simple_bind_s(bind_dn, bind_password)
        return connection


def random_name(prefix: str) -> str:
    """A name no other test uses, short enough for a sAMAccountName."""
    return f"{prefix}-{secrets.token_hex(5)}"


def filetime(seconds_from_now: float = 0) -> str:
    """A time as a FILETIME, in 100 ns since 1601."""
    return str(int((time.time() + seconds_from_now + 11_644_473_600) * 10_000_000))


def split_dn(dn: str) -> tuple[str, str]:
    """Split a name into its RDN and its parent; escapes stay as they are."""
    position = 0
    while dn[position] != ",":
        position += 2 if dn[position] == "\\" else 1
    return dn[:position], dn[position + 1 :]


def open_connection(url: str, ca_file: str) -> Connection:
    connection = ldap.initialize(url)
    connection.set_option(ldap.OPT_X_TLS_CACERTFILE, ca_file)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    connection.set_option(ldap.OPT_REFERRALS, 0)
    connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 60)
    connection.set_option(ldap.OPT_TIMEOUT, 600)
    return connection


def _name(target: Target) -> str:
    return f"<GUID={target}>" if isinstance(target, uuid.UUID) else target


def _encode(values: Values) -> list[bytes]:
    if isinstance(values, str | bytes):
        values = [values]
    return [value.encode() if isinstance(value, str) else value for value in values]

"""What the gateway's own account needs in a directory, task by task, and the `dsacls` lines that give it just that.

Reading needs nothing: Authenticated Users may read. None of this makes the account an administrator; what the gateway's
roles permit is confined further by the gateway itself.
"""

from dataclasses import dataclass
from typing import Final

from directory.ldap import DistinguishedName, InvalidValue


@dataclass(frozen=True, slots=True)
class NeededRights:
    """What one task takes. `permissions` are the gateway's that are of no use without it.

    `entries` are access control entries as `dsacls /G` takes them, `RIGHTS;WHAT;ON`. They are given on the part of the
    domain that the gateway manages, or, with `on_domain`, on the domain itself. Those of `children` (`/I:T`) hold for
    the container and all below, the others (`/I:S`) for the objects below of the class that they name last.
    """

    task: str
    permissions: tuple[str, ...]
    entries: tuple[str, ...]
    children: tuple[str, ...] = ()
    on_domain: tuple[str, ...] = ()

    def commands(self, *, account: str, base_dn: str) -> list[str]:
        """The lines for an account (`CORP\\\\svc-gateway`) and the container that it is to manage."""
        lines = [f'dsacls "{base_dn}" /I:T /G "{account}:{entry}"' for entry in self.children]
        lines += [f'dsacls "{base_dn}" /I:S /G "{account}:{entry}"' for entry in self.entries]
        return [*lines, *(f'dsacls "{domain_of(base_dn)}" /G "{account}:{entry}"' for entry in self.on_domain)]


NEEDED_RIGHTS: Final = (
    NeededRights(
        "Change users: their attributes, their names, whether they are enabled, unlocking",
        (
            "directory.update_user",
            "directory.enable_account",
            "directory.disable_account",
            "directory.unlock_account",
            "directory.run_accounts",
        ),
        ("RPWP;;user",),
    ),
    NeededRights(
        "Reset passwords",
        ("directory.reset_password",),
        ("CA;Reset Password;user", "RPWP;pwdLastSet;user", "RPWP;lockoutTime;user"),
    ),
    NeededRights(
        "Create, move and delete users", ("directory.create_user", "directory.delete_user"), (), ("CCDC;user",)
    ),
    NeededRights("Change members of groups", ("directory.manage_membership",), ("RPWP;member;group",)),
    NeededRights(
        "Create, change, move and delete groups",
        ("directory.create_group", "directory.update_group", "directory.delete_group"),
        ("RPWP;;group",),
        ("CCDC;group",),
    ),
    NeededRights(
        "Create, change, move and delete computers",
        ("directory.create_computer", "directory.update_computer", "directory.delete_computer"),
        ("RPWP;;computer",),
        ("CCDC;computer",),
    ),
    NeededRights(
        "Create, change, move and delete organizational units",
        (
            "directory.create_organizationalunit",
            "directory.update_organizationalunit",
            "directory.delete_organizationalunit",
        ),
        ("RPWP;;organizationalUnit",),
        ("CCDC;organizationalUnit",),
    ),
    # [MS-ADTS] 3.1.1.5.3.7.1: reanimating asks for this extended right on the root of the naming context.
    NeededRights(
        "Restore deleted objects (besides creating their kind)",
        ("directory.restore_deleted",),
        (),
        (),
        ("CA;Reanimate Tombstones",),
    ),
)


def account_name(bind_name: str) -> str:
    """The account as `dsacls` takes it: `name@domain` or `DOMAIN\\name`. Of a distinguished name it is a guess, for
    an account need not be called in its domain as its object is.
    """
    if "=" not in bind_name:
        return bind_name
    try:
        name = DistinguishedName.parse(bind_name).rdn_value
    except InvalidValue:
        return bind_name
    return f"{name}@{'.'.join(part.partition('=')[2] for part in domain_of(bind_name).split(','))}"


def domain_of(dn: str) -> str:
    """The domain that a distinguished name is in: its DC parts, or the name itself where it has none."""
    try:
        name: DistinguishedName | None = DistinguishedName.parse(dn)
    except InvalidValue:
        return dn
    while name is not None and name.rdns and name.rdn_attribute.upper() != "DC":
        name = name.parent
    return str(name) if name is not None and name.rdns else dn

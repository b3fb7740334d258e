"""What people call objects and places, from their distinguished names."""

from directory.ldap import DistinguishedName, InvalidValue


def common_name(distinguished_name: str | None) -> str:
    """What people call an object: the value of its first name part."""
    name = parsed(distinguished_name)
    return name.rdn_value if name is not None and name.rdns else (distinguished_name or "")


def parsed(distinguished_name: str | None) -> DistinguishedName | None:
    try:
        return DistinguishedName.parse(distinguished_name or "")
    except InvalidValue:  # a log shows what was asked for, which need not be a name
        return None

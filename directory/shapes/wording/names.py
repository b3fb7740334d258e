"""What people call objects and places, from their distinguished names."""

from functools import lru_cache

from active_directory import DistinguishedName, InvalidValue


def common_name(distinguished_name: str | None) -> str:
    """What people call an object: the value of its first name part.

    A deleted object has its id added there, after a line feed ([MS-ADTS] 3.1.1.5.5): that is left out.
    """
    name = parsed(distinguished_name)
    called = name.rdn_value if name is not None and name.rdns else (distinguished_name or "")
    return called.partition("\nDEL:")[0]


def place(distinguished_name: str | None) -> str:
    """Where an object is, from the domain down: `corp.example.test / Staff / London`."""
    name = parsed(distinguished_name)
    if name is None:
        return ""
    above = [rdn[0] for rdn in name.rdns[1:]]
    domain = ".".join(value for attribute, value in above if attribute.upper() == "DC")
    units = [value for attribute, value in reversed(above) if attribute.upper() != "DC"]
    return " / ".join([domain, *units] if domain else units)


@lru_cache(maxsize=4096)  # a page of many changes names the same objects and places again and again
def parsed(distinguished_name: str | None) -> DistinguishedName | None:
    """A text as a distinguished name; None for what is none."""
    try:
        return DistinguishedName.parse(distinguished_name or "")
    except InvalidValue:  # a log shows what was asked for, which need not be a name
        return None

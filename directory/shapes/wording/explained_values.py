"""What the numbers of a few attributes mean, for people who read or decide a change. Nothing here is parsed again."""

import enum
from collections.abc import Callable, Mapping

from active_directory import GroupType, InstanceType, SupportedEncryptionTypes, SystemFlags, UserAccountControl

_BITS: Mapping[str, Callable[[int], enum.IntFlag]] = {
    "useraccountcontrol": UserAccountControl,
    "grouptype": GroupType.from_directory,
    "systemflags": lambda value: SystemFlags(value & 0xFFFF_FFFF),
    "instancetype": InstanceType,
    "msds-supportedencryptiontypes": SupportedEncryptionTypes,
}


def explained(attribute: str, value: str) -> str:
    """A value followed by the names of its bits, where the attribute is a set of bits; else the value alone."""
    read = _BITS.get(attribute.lower())
    if read is None:
        return value
    try:
        names = [str(bit.name) for bit in read(int(value))]
    except ValueError:  # a placeholder instead of a number
        return value
    return f"{value} ({', '.join(names)})" if names else value

"""How a directory is reached: its servers, the account the gateway signs in with, and the limits of patience."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ServerSettings:
    """One directory. Times are in seconds; ``urls`` are tried in their order."""

    urls: tuple[str, ...]
    base_dn: str
    bind_dn: str
    bind_password: str = field(repr=False)
    ca_certificate: str | None = field(default=None, repr=False)  # PEM text; None trusts the system's authorities
    start_tls: bool = False
    connect_seconds: float = 5  # for each server: TCP, TLS and bind
    operation_seconds: float = 20
    pool_size: int = 8
    idle_seconds: float = 30  # a connection unused for longer is checked before it is used
    schema_seconds: float = 600  # how long a loaded schema is believed
    other_passwords: tuple[str, ...] = field(default=(), repr=False)  # tried when the first is wrong: one is on its way

"""Where this test process keeps its servers and what settings are told about them; nothing is started here."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

DATABASE = os.environ.get("GATEWAY_TEST_DATABASE", "postgresql")

# Short, since the path of a Unix socket has at most 107 bytes.
RUNTIME = Path(tempfile.mkdtemp(prefix="gateway-test-"))
RUNTIME.chmod(0o755)  # PostgreSQL runs as another user and keeps its part of it to itself
POSTGRES = RUNTIME / "postgres"
REDIS_SOCKET = RUNTIME / "redis.sock"
SQLITE_FILE = RUNTIME / "gateway.sqlite3"


def prepare_environment() -> None:
    """Point settings at this process's own servers, whatever the caller's environment says.

    Every process of a parallel run does this for itself: they share no server, so no test sees another's data.
    """
    if DATABASE not in ("postgresql", "sqlite"):
        raise ValueError(f"GATEWAY_TEST_DATABASE must be postgresql or sqlite, not {DATABASE!r}")
    os.environ.update(
        {
            "DJANGO_SETTINGS_MODULE": "gateway.settings",
            "DATABASE_URL": f"sqlite:///{SQLITE_FILE}" if DATABASE == "sqlite" else postgres_url("gateway"),
            "REDIS_URL": f"unix://{REDIS_SOCKET}",
            "GATEWAY_ENVIRONMENT": "Development",
            "GATEWAY_DATA_DIR": str(RUNTIME / "data"),
            # Limits are counted per client address, and here all clients have the same. See the fixture `limited`.
            "RateLimiting__Enabled": "false",
            "Agents__Enabled": "true",
            # Not secret: they protect a database that lives as long as the tests.
            "GATEWAY_SECRET_KEY": "the-secret-key-of-the-tests-of-the-gateway",
            "GATEWAY_LOG_KEYS": "the-key-of-the-operations-log-of-the-tests",
            "GATEWAY_ENCRYPTION_KEYS": "dGVzdHMtdGVzdHMtdGVzdHMtdGVzdHMtdGVzdHMtISE=",
        }
    )
    os.environ.pop("GATEWAY_CONFIG", None)
    # The servers were stopped by their fixtures; a killed process leaves its files to the system's clean-up of /tmp.
    atexit.register(shutil.rmtree, RUNTIME, ignore_errors=True)


def postgres_url(database: str, *, at: Path = POSTGRES) -> str:
    """The URL of a database of this process's PostgreSQL, or of one in another directory."""
    return f"postgresql:///{database}?host={at}&user=gateway"

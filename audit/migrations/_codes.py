"""The code of a record as migration 0003 gave it to those that had none; `audit.chain.seals` says what it is for."""

import hmac
import json
from datetime import UTC, datetime

from django.conf import settings

# All that a record of then is made with and that never changes.
COLUMNS = (
    *("id", "at", "surface", "operation", "owner", "owner_id", "key_name", "credential_id", "client_address"),
    *("request_id", "directory_id", "directory", "target_kind", "changes", "change_request_id", "approved_by"),
    *("run_id", "batch_index", "reason", "reversible", "evidence"),
)


def mac_of(facts):
    """The code of a record, from its fields."""
    content = json.dumps(
        {name: facts[name] for name in COLUMNS},
        sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_text,
    )
    return hmac.digest(settings.LOG_KEYS[0].encode(), b"operations log, record\0" + content.encode(), "sha256").hex()


def _text(value):
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)

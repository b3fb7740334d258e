"""The seal of a bind password as migration 0007 gave it to every connection; `directory.models.connections` says
what it is for. Both are encrypted in the database, and a migration sees them as they lie there.
"""

import hashlib
import json

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings


def encrypted_seal(row):
    """The seal, encrypted, of a row's password with where it is sent today."""
    cipher = MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])
    password = cipher.decrypt(row.bind_password).decode() if row.bind_password else ""
    servers = sorted({str(url).lower().rstrip("/") for url in row.urls})
    sealed = json.dumps([servers, bool(row.start_tls), row.ca_certificate.split(), row.bind_dn.strip(), password])
    return cipher.encrypt(hashlib.sha256(sealed.encode()).hexdigest().encode()).decode()

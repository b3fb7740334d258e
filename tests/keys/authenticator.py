"""An authenticator as people carry it, after RFC 6238 and owing nothing to the gateway's code."""

import base64
import hmac
import struct
import time

STEP = 30


def code_of(secret: str, *, steps: int = 0) -> str:
    """The code that is shown now, or so many half minutes later; not one that is just about to change."""
    left = STEP - time.time() % STEP
    if left < 5:  # a busy machine may take so long before it looks at the code
        time.sleep(left)
    counter = struct.pack(">Q", int(time.time()) // STEP + steps)
    digest = hmac.new(base64.b32decode(secret), counter, "sha1").digest()
    place = digest[-1] & 0x0F
    return f"{(int.from_bytes(digest[place : place + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06d}"

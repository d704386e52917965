"""Checks the signature of a webhook, as Standard Webhooks has it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping

from .errors import ConfigError


def verify_webhook(body: bytes, headers: Mapping[str, str], secret: str, *, tolerance: float = 300.0) -> bool:
    """Tell whether ``body`` comes from who knows ``secret`` (whsec_...), and was sent within ``tolerance`` seconds.

    ``body`` must be the bytes as they came. Deliveries are repeated: keep ``webhook-id`` to know one again.
    """
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("the secret is not whsec_ and base64") from None
    found = {name.lower(): value for name, value in headers.items()}
    id, at = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
    if not id or not at.isdecimal() or abs(time.time() - int(at)) > tolerance:
        return False
    want = base64.b64encode(hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()).decode()
    signatures = [s.partition(",") for s in found.get("webhook-signature", "").split()]
    return any(version == "v1" and hmac.compare_digest(got.encode(), want.encode()) for version, _, got in signatures)

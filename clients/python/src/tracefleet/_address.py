"""Where the server is, and how to talk to it."""

from __future__ import annotations

import os
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import ConfigError, TransportError

USER_AGENT = "tracefleet-python/0.1"
MAX_HEADERS = 64 << 10
IDLE = 20.0
"""Seconds after which an unused connection is not used again; the server keeps it for longer."""
MOST_IDLE = 256
"""How many unused connections are kept."""


@dataclass(frozen=True)
class Address:
    """The place of a server and what goes with every request."""

    secure: bool
    host: str
    port: int
    base: str
    token: str | None
    context: ssl.SSLContext | None

    @property
    def host_header(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    def headers(self, extra: Mapping[str, str], accept: str = "application/json") -> dict[str, str]:
        """Return the headers of a request."""
        found = {"Host": self.host_header, "User-Agent": USER_AGENT, "Accept": accept, **extra}
        if accept == "application/json":
            found["Accept-Encoding"] = "gzip"
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        for name, value in found.items():
            if any(c < " " or c == "\x7f" or ord(c) > 255 for c in name + value):
                raise ConfigError(f"header {name!r} holds a character that cannot travel")
        return found


def parse(base_url: str | None, token: str | None, cafile: str | None) -> Address:
    """Read the address of a server."""
    if not base_url:
        raise ConfigError("no address: give base_url, or set TRACEFLEET_URL to something like http://127.0.0.1:8080")
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"not the address of a server: {parts.scheme}://{parts.hostname or ''} (want http://HOST:PORT)")
    if parts.username or parts.password:
        raise ConfigError("the address must not hold a password; give token")
    try:
        port = parts.port
    except ValueError:
        raise ConfigError("the port of the address is not a number") from None
    secure = parts.scheme == "https"
    context = ssl.create_default_context(cafile=cafile) if secure else None
    return Address(secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/"), token or None, context)


def from_environment() -> tuple[str | None, str | None]:
    """Return the address and the token that the environment names."""
    return os.environ.get("TRACEFLEET_URL"), os.environ.get("TRACEFLEET_TOKEN")


def unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """Decompress a body to at most ``limit`` bytes."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise TransportError(f"the answer is compressed in an unknown way: {encoding[:40]!r}", False)
    decoder = zlib.decompressobj(wbits=31)
    try:
        plain = decoder.decompress(body, limit)
    except zlib.error as err:
        raise TransportError(f"the answer cannot be decompressed: {err}", False) from None
    if decoder.unconsumed_tail or not decoder.eof:
        raise TransportError("the answer is too large, or cut off", False)
    return plain

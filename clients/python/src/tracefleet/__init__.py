"""Run Python programs in a sandbox and read what they did: the client of the Tracefleet API."""

from __future__ import annotations

import logging

from ._flow import Request, Response
from .aclient import AsyncTraceClient
from .client import TraceClient
from .errors import (
    ApiError,
    AuthError,
    ConfigError,
    ConnectFailed,
    Forbidden,
    IdReused,
    InvalidJob,
    NotFound,
    RateLimited,
    ServerError,
    TracefleetError,
    TraceTimeout,
    TransportError,
    Unavailable,
)
from .models import (
    Effect,
    Event,
    FailedRun,
    Handle,
    JobOptions,
    Limits,
    MapItem,
    Raised,
    Result,
    Status,
    ThreadException,
    Trace,
    TraceOptions,
)
from .webhooks import verify_webhook

__version__ = "0.1.0"

__all__ = [
    "ApiError", "AsyncTraceClient", "AuthError", "ConfigError", "ConnectFailed", "Effect", "Event", "FailedRun", "Forbidden", "Handle", "IdReused",
    "InvalidJob", "JobOptions", "Limits", "MapItem", "NotFound", "Raised", "RateLimited", "Request", "Response", "Result", "ServerError", "Status",
    "ThreadException", "Trace", "TraceClient", "TraceOptions", "TraceTimeout", "TracefleetError", "TransportError", "Unavailable", "verify_webhook",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())

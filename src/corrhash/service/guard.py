"""Guard: everything that stands between the network and the routes, outermost first."""

from __future__ import annotations

from starlette.types import ASGIApp

from corrhash.service.bodies import BodyLimit
from corrhash.service.headers import SafeHeaders
from corrhash.service.hosts import KnownHosts
from corrhash.service.limits import Limits
from corrhash.service.logs import RequestLog
from corrhash.service.metrics import Measured, Metrics
from corrhash.service.throttle import Throttle


def guarded(app: ASGIApp, limits: Limits, metrics: Metrics, hosts: tuple[str, ...]) -> ASGIApp:
    """An app behind its guard."""
    limited = Throttle(BodyLimit(app, limits), limits)
    return RequestLog(Measured(SafeHeaders(KnownHosts(limited, hosts)), metrics))

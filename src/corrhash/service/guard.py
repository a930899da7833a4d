"""Guard: everything that stands between the network and the routes, outermost first."""

from __future__ import annotations

from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from corrhash.service.bodies import BodyLimit
from corrhash.service.headers import SafeHeaders
from corrhash.service.limits import Limits
from corrhash.service.logs import RequestLog
from corrhash.service.metrics import Measured, Metrics
from corrhash.service.throttle import Throttle


def guarded(app: ASGIApp, limits: Limits, metrics: Metrics, hosts: tuple[str, ...]) -> ASGIApp:
    """An app behind its guard.

    Names of hosts are checked because a page from elsewhere can let its own name point here, and
    would then be allowed to read the answers.
    """
    limited = Throttle(BodyLimit(app, limits), limits)
    named = TrustedHostMiddleware(limited, allowed_hosts=list(hosts), www_redirect=False)
    return RequestLog(Measured(SafeHeaders(named), metrics))

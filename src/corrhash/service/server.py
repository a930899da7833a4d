"""The server: bind a socket, run uvicorn in one or more processes, shut down gracefully."""

from __future__ import annotations

import gc
import ipaddress
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from types import FrameType

import numpy as np
import uvicorn

from corrhash.codes import Codes
from corrhash.collection.collection import Collection
from corrhash.errors import InputError
from corrhash.index.sqlite import SQLiteIndex
from corrhash.service.app import create_app
from corrhash.service.connections import limited_protocol
from corrhash.service.limits import Limits
from corrhash.service.originals import check_originals
from corrhash.service.telemetry import log, log_to_stderr, shared_metrics

LOOPBACK = ("localhost", "127.0.0.1", "::1")
COLLECTOR_THRESHOLDS = (20_000, 20, 20)
"""New objects, and then younger collections, after which the collector visits a generation."""

SHUTDOWN_SECONDS = 5
"""Time for requests in progress to finish after SIGTERM."""

KILL_SECONDS = 9
"""Time after SIGTERM in which the process ends, whatever is still running."""


def serve(
    collection: Collection,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    names: tuple[str, ...] = (),
    token: str | None = None,
    originals: bool = False,
    paths: bool = False,
    limits: Limits | None = None,
    workers: int = 1,
    proxies: tuple[str, ...] = (),
    ready: Callable[[str], object] = lambda url: None,
) -> None:
    """Serve a collection until SIGTERM or SIGINT, then finish the requests in progress.

    The process ends within ten seconds of the signal, even if a request is still in progress.

    Parameters
    ----------
    names : additional host names that requests may use, such as that of a proxy.
    token : token that allows adding and deleting; None makes the service read-only.
    originals, paths : publish the image files of items, or their paths, below the root.
    limits : sizes, times and request rates of each worker.
    workers : number of processes that answer requests. More than one need a collection in a folder,
        whose codes they share in memory.
    proxies : addresses or networks of reverse proxies, whose X-Forwarded-For header names the
        client. From any other address the header is ignored.
    ready : called with the URL of the service once it answers.
    """
    if originals:
        check_originals(str(collection.index.about.get("root", "")))
    limits = limits or Limits()
    protocol = limited_protocol(limits, proxies)
    if workers > 1:
        _check_workers(collection)
    bound = bind(host, port)
    hosts = (*LOOPBACK, *names) if is_loopback(host) or names else ("*",)
    url = _url(bound)
    log_to_stderr()

    def run(ready: Callable[[], object]) -> None:
        def tell() -> None:
            tune_collector()
            ready()

        config = uvicorn.Config(
            create_app(
                collection,
                limits,
                token=token,
                originals=originals,
                paths=paths or originals,
                hosts=hosts,
                ready=tell,
            ),
            log_config=None,
            access_log=False,
            server_header=False,
            http=protocol,
            ws="none",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_keep_alive=limits.keep_alive,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        _Server(config).run(sockets=[bound])

    with bound:
        if workers == 1:
            run(lambda: ready(url))
        else:
            _run_workers(collection, workers, run, lambda: ready(url))


class _Server(uvicorn.Server):
    """A server that ends soon after a signal, also if a thread or a client does not."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if hasattr(signal, "alarm") and not self.should_exit:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends the process
            signal.alarm(KILL_SECONDS)
        super().handle_exit(sig, frame)


def tune_collector() -> None:
    """Let the garbage collector run seldom, and skip what is loaded by now.

    A request makes hundreds of objects, and hardly any cycle of references. With the defaults of
    Python, collecting takes a tenth of the time of a search.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def _check_workers(collection: Collection) -> None:
    if not isinstance(collection.index, SQLiteIndex) or not hasattr(os, "fork"):
        raise InputError(
            "Multiple workers require a collection in a folder, on Linux or macOS. Use one "
            "worker, or run several services behind a proxy."
        )


def _run_workers(
    collection: Collection,
    n: int,
    run: Callable[[Callable[[], object]], None],
    ready: Callable[[], object],
) -> None:
    """Fork ``n`` processes that serve the same socket, and wait until they have ended.

    A forked process shares the memory of its parent until one of them changes it. Codes in memory
    never change in place, so all workers share those that a search loads before the fork.
    """
    index = collection.index
    index.threads = 1  # threads do not survive a fork
    collection.nearest(Codes.from_continuous(np.zeros((64, collection.n_bits))), 1)
    index.threads = None
    gc.freeze()  # the collector would write to shared memory
    context = multiprocessing.get_context("fork")
    started, starting = context.Pipe(duplex=False)

    def work() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)  # uvicorn sets its own
        threading.Thread(target=_end_with_parent, daemon=True).start()
        run(lambda: starting.send(None))

    workers = [context.Process(target=work) for _ in range(n)]
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        for worker in workers:
            if worker.pid is not None:
                worker.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with shared_metrics():
        for worker in workers:
            worker.start()
        n_ready = 0
        while alive := [worker for worker in workers if worker.is_alive()]:
            sentinels = [worker.sentinel for worker in alive]
            if started in wait([started, *sentinels] if n_ready < n else sentinels):
                started.recv()
                n_ready += 1
                if n_ready == n:
                    ready()
            elif not received:  # a worker has crashed: end the others, too
                log.error("a worker process has ended unexpectedly")
                stop(0, None)
    if 0 in received:
        raise SystemExit(1)
    signal.signal(received[0], signal.SIG_DFL)
    signal.raise_signal(received[0])  # ended by the signal, as with one worker


def _end_with_parent() -> None:
    """Stop this worker when the process that started it has been killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def is_loopback(host: str) -> bool:
    """Whether a host is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Cannot listen on {host}, port {port}: {error}. Choose another port with --port."
        ) from error
    # Connections inherit it; without it the body of a response waits up to 40 ms for an ACK.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"

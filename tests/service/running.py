"""Run a service in a thread, on a free port of this machine."""

import socket
import threading
import time
from contextlib import contextmanager

import uvicorn


@contextmanager
def running(app, **options):
    """Yield the URL of a running app; the options are those of uvicorn."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        bound.close()

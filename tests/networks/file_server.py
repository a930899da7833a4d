"""A local web server with one file and optional failures."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Serves ``content``; ``requests`` lists the Range headers that came (None without)."""

    def __init__(self, content, *, resumes=True, breaks_after=None, status=None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.resumes = resumes
        self.breaks_after = breaks_after
        self.status = status
        self.requests = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append(wanted)
        if server.status is not None:
            self.send_error(server.status)
            return
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.resumes else 0
        if first and first >= len(server.content):
            self.send_error(416)
            return
        rest = server.content[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: server.breaks_after])

    def log_message(self, *args):
        pass


@contextmanager
def serve(content, **options):
    """A running server, stopped at the end of the block."""
    with FileServer(content, **options) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(timeout=10)

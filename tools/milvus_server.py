"""Run a command beside a private Milvus server, for tests.

``python tools/milvus_server.py COMMAND ...`` sets CORRHASH_MILVUS=127.0.0.1:19530 for the command
and stops the server when the command ends. With ``--if-possible`` before the command, it runs
without a server if none can run, and CORRHASH_NO_MILVUS holds the reason.

The server listens on every interface and has no setting for that, so server and command run in
their own network namespace, which needs root and Linux. The server is installed in its own virtual
environment: ``make .venv-milvus/.ready``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-milvus" / "bin" / "python"
PORT, HEALTH_PORT = 19530, 9091
ADDRESS = f"127.0.0.1:{PORT}"
VARIABLE = "CORRHASH_MILVUS"
REASON = "CORRHASH_NO_MILVUS"
INSIDE = "CORRHASH_NAMESPACE"
IF_POSSIBLE = "--if-possible"
START_SECONDS = 300
"""Longest start of a server: usually 20 seconds, some minutes after it was killed."""

# The server writes its process id to fixed paths, which are mounted privately.
ENTER = (
    "mount -t tmpfs none /run && mkdir -p /tmp/milvus && mount -t tmpfs none /tmp/milvus "
    '&& ip link set lo up && exec "$@"'
)

# Runs in the server's virtual environment and becomes the server.
START = """
import os, pathlib, sys
from milvus import MilvusServer, MilvusServerConfig, _initialize_data_files

data, port, program = sys.argv[1:]
_initialize_data_files(program)
config = MilvusServerConfig(data_dir=data, proxy_port=int(port))
config.set("proxy.timeTickInterval", 20)  # milliseconds until writes are visible
if not pathlib.Path(data, "configs", "milvus.yaml").exists():
    config.resolve()  # only once: later, closing connections still occupy the ports
libraries = pathlib.Path(program, "bin")
os.environ |= {"MILVUSCONF": f"{data}/configs", "LD_LIBRARY_PATH": str(libraries)}
os.environ["DEPLOY_MODE"] = "STANDALONE"
os.execve(libraries / "milvus", ["milvus", "run", "standalone"], os.environ)
"""


class MilvusServer:
    """A server on a data folder; it can be killed and started again."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it is healthy."""
        program = PYTHON.parent.parent / "server"
        command = ["setpriv", "--pdeathsig", "KILL", PYTHON, "-c", START, self.data, PORT, program]
        with (self.data.parent / "milvus.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdout=log, stderr=log, cwd=self.data.parent
            )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if _is_healthy():
                return
            time.sleep(0.2)
        sys.exit(f"Milvus did not start. See its log {log.name}.")

    def kill(self) -> None:
        """Kill the server: after SIGTERM it takes minutes to stop."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


def _is_healthy() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{HEALTH_PORT}/healthz", timeout=5) as answer:
            return b"OK" in answer.read()
    except (OSError, urllib.error.URLError):
        return False


def why_not() -> str | None:
    """Return why no server can run here; None if one can."""
    if not PYTHON.exists():
        return "the server is not installed, run make .venv-milvus/.ready"
    if os.environ.get(INSIDE):
        return None
    tools = [tool for tool in ("unshare", "setpriv", "ip") if shutil.which(tool) is None]
    if tools:
        return f"{', '.join(tools)} not found"
    tried = subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode else None


def enter_namespace(arguments: list[str]) -> None:
    """Run the same program again in a new network namespace, unless it is in one already."""
    if not os.environ.get(INSIDE):
        enter = ["unshare", "-n", "-m", "bash", "-c", ENTER, "_", sys.executable, *arguments]
        os.execvpe("unshare", enter, os.environ | {INSIDE: "1"})


def main(command: list[str]) -> int:
    """Run the command beside a server and return its exit code."""
    if not command or command == [IF_POSSIBLE]:
        print(__doc__)
        return 2
    optional, command = command[0] == IF_POSSIBLE, [w for w in command if w != IF_POSSIBLE]
    if reason := why_not():
        print(f"Milvus cannot run here: {reason}", file=sys.stderr)
        if not optional:
            return 3
        return subprocess.run(command, env=os.environ | {REASON: reason}).returncode
    enter_namespace([__file__, *command])
    # Stop the server on SIGTERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="corrhash-milvus-") as folder:
        server = MilvusServer(Path(folder) / "data")
        server.data.mkdir()
        try:
            server.start()
            return subprocess.run(command, env=os.environ | {VARIABLE: ADDRESS}).returncode
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

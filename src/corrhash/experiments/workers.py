"""Workers: processes of one thread each, of which one that dies takes only its own job along."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool

from corrhash.cache_folder import cache_folder

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
"""What a worker's libraries read; with one thread, sums come out alike on every machine."""

WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its value, or why there is none."""

    value: Any = None
    error: str | None = None
    traceback: str = ""


class Workers:
    """Some processes that do jobs, each one at a time; they end with the ``with`` block."""

    def __init__(self, n: int) -> None:
        self.every = [_Worker() for _ in range(n)]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.every:
            worker.stop()

    def run_jobs(
        self,
        jobs: list[tuple[Any, ...]],
        work: Callable[..., Any],
        started: Callable[[int], None],
    ) -> Iterator[tuple[int, Outcome]]:
        """Call ``work(*job)`` for every job; give the number of each as it ends, and its outcome.

        ``started`` is called with the number of a job when it begins.
        """
        free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self.every:
            free.put(worker)

        leaving = threading.Event()

        def one(number: int) -> Outcome:
            worker = free.get()
            try:
                if leaving.is_set():
                    return Outcome(error="It was not begun.")
                started(number)
                return worker.do(work, jobs[number])
            finally:
                free.put(worker)

        threads = ThreadPoolExecutor(len(self.every))
        waiting = {threads.submit(one, number): number for number in range(len(jobs))}
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
        finally:
            leaving.set()
            while waiting:  # left before the end: what is running is not waited for
                for worker in self.every:
                    worker.interrupt()
                done, _ = wait(waiting, timeout=WATCH_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    del waiting[future]
            threads.shutdown()


class _Worker:
    """One process, begun when there is work and begun anew when it died."""

    def __init__(self) -> None:
        self.executor: Any = None
        self.process: int | None = None

    def do(self, work: Callable[..., Any], job: tuple[Any, ...]) -> Outcome:
        try:
            if self.executor is None:
                self._begin()
            outcome: Outcome = self.executor.submit(_guarded, work, job).result()
            return outcome
        except BrokenProcessPool:
            self.stop()
            return Outcome(error="The process died: out of memory, or ended from outside.")

    def _begin(self) -> None:
        environment = dict.fromkeys(THREADS, "1") | {"CORRHASH_CACHE": str(cache_folder())}
        self.executor = ProcessPoolExecutor(
            1, env=environment, initializer=_leave_with, initargs=(os.getpid(),)
        )
        self.process = self.executor.submit(os.getpid).result()

    def interrupt(self) -> None:
        """End the process, whatever it is doing."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGTERM)

    def stop(self) -> None:
        """Let the process end when it has nothing to do."""
        if self.executor is not None:
            self.executor.shutdown(wait=True)
        self.executor = self.process = None


def _guarded(work: Callable[..., Any], job: tuple[Any, ...]) -> Outcome:
    """Do the work in the worker; what goes wrong comes back as words."""
    try:
        return Outcome(work(*job))
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return Outcome(error=f"{kind}{error}", traceback=traceback.format_exc())


def _leave_with(parent: int) -> None:
    """End this process when its parent is gone, so that two never do the same job."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""Workers: jobs in processes of one thread each, and what becomes of those that fail."""

import os
import threading
import time

import pytest

from corrhash.experiments.workers import Workers


def job(number):
    if number == 1:
        raise ZeroDivisionError("one")
    if number == 2:
        os._exit(3)
    return number, os.environ["OMP_NUM_THREADS"], os.getpid()


@pytest.fixture(scope="module")
def outcomes():
    began = []
    with Workers(1) as workers:
        ended = dict(workers.run_jobs([(n,) for n in range(4)], job, began.append))
        again = dict(workers.run_jobs([(5,)], job, began.append))
    assert began == [0, 1, 2, 3, 0]
    return ended, again


def test_a_job_gives_its_value_from_a_process_of_one_thread(outcomes):
    number, threads, process = outcomes[0][0].value
    assert (number, threads) == (0, "1")
    assert process != os.getpid()


def test_a_job_that_raises_comes_back_as_words(outcomes):
    failed = outcomes[0][1]
    assert failed.error == "ZeroDivisionError: one"
    assert "Traceback" in failed.traceback


def test_a_process_that_dies_takes_one_job_along(outcomes):
    ended, _ = outcomes
    assert ended[2].error.startswith("The process died")
    assert ended[3].value[0] == 3
    assert ended[3].value[2] != ended[0].value[2]


def test_workers_stay_between_two_lists_of_jobs(outcomes):
    ended, again = outcomes
    assert again[0].value[2] == ended[3].value[2]


def test_leaving_early_ends_what_is_running():
    began = threading.Event()
    with Workers(2) as workers:
        slow = [(0.0,), (60.0,), (60.0,), (60.0,)]
        running = workers.run_jobs(slow, time.sleep, lambda number: number == 2 and began.set())
        next(running)
        began.wait()
        started = time.perf_counter()
        running.close()
    assert time.perf_counter() - started < 30

"""Progress: reports reach the listener, and nobody else."""

from corrhash.progress import listening, report


def test_reports_reach_the_listener_inside_its_block_only():
    heard = []
    report("before", 1, 1)
    with listening(heard.append):
        report("inside", 2, 5, loss=0.5)
    report("after", 1, 1)
    assert [(step.task, step.done, step.total, step.numbers) for step in heard] == [
        ("inside", 2, 5, {"loss": 0.5})
    ]

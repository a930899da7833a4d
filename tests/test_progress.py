"""Progress reports reach the listener inside its block."""

from corrhash._progress import listening, report


def test_only_reports_inside_the_block_are_passed():
    steps = []
    report("before", 1, 1)
    with listening(steps.append):
        report("inside", 2, 5, loss=0.5)
    report("after", 1, 1)
    assert [(step.task, step.done, step.total, step.metrics) for step in steps] == [
        ("inside", 2, 5, {"loss": 0.5})
    ]

"""Notes: warnings are kept once each, and handlers are put back."""

import logging
import warnings

import pytest

from corrhash.experiments.notes import taking_notes


def test_each_warning_is_kept_once_and_information_is_not():
    log = logging.getLogger("corrhash")
    with taking_notes() as notes:
        for _ in range(2):
            log.warning("Only %d codes.", 9)
            warnings.warn("slow", stacklevel=1)
        log.info("all is well")
    assert notes == ["Only 9 codes.", "slow"]


def test_handlers_are_put_back_even_after_an_error():
    log = logging.getLogger("corrhash")
    before = log.handlers
    with pytest.raises(ZeroDivisionError), taking_notes():
        raise ZeroDivisionError
    assert log.handlers is before

"""Docstrings as pages for a terminal: paragraphs flow, lists and examples keep their lines."""

from __future__ import annotations

import re


def reflow(docstring: str) -> str:
    """Join the lines of paragraphs and of list entries, so that a terminal can wrap them.

    >>> print(reflow("One\\nsentence.\\n\\nParameters\\n---\\na : long\\n    text.\\nb : short."))
    One sentence.
    <BLANKLINE>
    Parameters
    ---
    a : long text.
    b : short.
    """
    return "\n\n".join(_reflow_block(block) for block in docstring.split("\n\n"))


def _reflow_block(block: str) -> str:
    if ">>>" in block:
        return block
    if re.search("^---", block, flags=re.MULTILINE):
        return re.sub(r"\n +", " ", block)  # only continuation lines are indented
    return " ".join(block.splitlines())

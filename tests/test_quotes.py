"""Tables in documents match the committed results."""

import pytest
from benchmarks.quote import QUOTE, ROOT, documents, with_quotes

DOCUMENTS = [path for path in documents() if QUOTE.search(path.read_text())]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_quoted_tables_match_the_results(path):
    """If this fails, run: python -m benchmarks.quote."""
    assert with_quotes(path.read_text()) == path.read_text()


def test_readme_quotes_the_study():
    assert ROOT / "README.md" in DOCUMENTS

"""What documents quote is what the committed result files say."""

import pytest
from benchmarks.quote import QUOTE, ROOT, documents, with_quotes

QUOTING = [path for path in documents() if QUOTE.search(path.read_text())]


@pytest.mark.parametrize("path", QUOTING, ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_in_documents_are_those_of_the_result_files(path):
    """If this fails: python -m benchmarks.quote."""
    assert with_quotes(path.read_text()) == path.read_text()


def test_the_readme_quotes_the_study():
    assert ROOT / "README.md" in QUOTING

"""The pages of the command line are generated from the commands."""

from tools.cli_reference import FOLDER, reference


def test_pages_match_the_commands():
    """If this fails, run: python -m tools.cli_reference."""
    for name, page in reference().items():
        assert (FOLDER / name).read_text() == page

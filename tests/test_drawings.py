"""docs/draw_method.py draws the figures of docs/explanation/chn.md."""

import subprocess
import sys
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parent.parent / "docs"


def test_figures_are_drawn_and_shown_in_the_docs(tmp_path):
    subprocess.run([sys.executable, "-W", "error", DOCS / "draw_method.py", tmp_path], check=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["architecture.png", "three-distances.png"]
    page = (DOCS / "explanation" / "chn.md").read_text()
    for name in names:
        assert f"(../images/{name})" in page
        with Image.open(tmp_path / name) as drawn, Image.open(DOCS / "images" / name) as kept:
            assert drawn.size == kept.size

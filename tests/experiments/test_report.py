"""Reports: every table and picture, and one page that needs nothing else."""

import base64
import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from corrhash.experiments import report
from corrhash.experiments.report import write_report
from tests.experiments.made_results import make_result, make_study

FIGURES = ["balance", "bits", "curves", "distances", "training"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    results, made = (tmp_path_factory.mktemp(name) for name in ("results", "report"))
    make_study(results)
    assert write_report(results, made) == made / "index.html"
    return made


class Page(HTMLParser):
    """Collects addresses, and checks that every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.addresses += [values[name] for name in ("src", "href") if name in values]
        self.ids += [values["id"]] if "id" in values else []
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing_outside(folder):
    page = Page()
    page.feed((folder / "index.html").read_text())
    assert page.open == []
    links = [address for address in page.addresses if address.startswith("#")]
    assert {link[1:] for link in links} <= set(page.ids)
    pictures = [a for a in page.addresses if a.startswith("data:image/png;base64,")]
    assert len(pictures) == len(FIGURES)
    assert len(links) + len(pictures) == len(page.addresses)
    for picture in pictures:
        with Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2]))) as opened:
            assert opened.size[0] > 600


def test_every_table_and_figure_has_its_files(folder):
    names = ["beyond-scenes", "claims", "settings-scenes", "significance"]
    names += ["table1", "table2", "table3"]
    assert sorted(path.stem for path in folder.glob("*.png")) == FIGURES
    assert sorted(p.stem for p in folder.glob("*.csv")) == sorted([*names, "results"])
    document = (folder / "report.tex").read_text()
    inputs = re.findall(r"\\input{(.*?)}", document)
    assert sorted(inputs) == sorted(f"{name}.tex" for name in names)
    assert all((folder / name).exists() for name in inputs)


def test_the_markdown_shows_the_pictures_beside_it(folder):
    text = (folder / "report.md").read_text()
    for name in re.findall(r"\]\((.*?)\)", text):
        assert (folder / name).exists()
    assert "Two training items share a label with probability 0.300" in text


def test_every_number_is_traced_to_its_file(folder):
    lines = (folder / "results.csv").read_text().splitlines()
    assert lines[0].endswith(",file")
    assert len(lines) == 1 + 2 * 2 * (2 * 7 + 2)  # header; directions, seeds, cells
    assert lines[1].endswith(".json")


@pytest.fixture
def without_figures(monkeypatch):
    monkeypatch.setattr(report, "draw_figures", lambda found: [])


def test_results_on_different_splits_are_not_passed_over(tmp_path, without_figures):
    make_result(tmp_path / "r", "cvh", 16, level=0.4, split="one")
    make_result(tmp_path / "r", "scm", 16, level=0.4, split="another")
    write_report(tmp_path / "r", tmp_path / "report")
    assert "Beware: results on scenes with seed 0" in (tmp_path / "report/report.md").read_text()


def test_a_single_result_makes_a_report_too(tmp_path, without_figures):
    make_result(tmp_path / "r", "cvh", 16, level=0.4)
    write_report(tmp_path / "r", tmp_path / "report")
    assert (tmp_path / "report" / "table1.csv").exists()
    assert not (tmp_path / "report" / "claims.csv").exists()

"""Folders of images, and the text that photo programs embed in images."""

import struct

import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import load_folder
from corrhash.datasets.formats.folder import embedded_text, folder_content, load, read
from tests.datasets.layouts import draw

XMP = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""
 xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:subject><rdf:Bag><rdf:li>café</rdf:li><rdf:li>red boat</rdf:li></rdf:Bag></dc:subject>
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">A boat
at sea</rdf:li></rdf:Alt></dc:description>
</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>"""


def save(path, **options):
    Image.new("RGB", (8, 8)).save(path, **options)
    return embedded_text(path)


def iptc_block(*entries):
    """The block of a JPEG in which Photoshop keeps IPTC."""
    content = b"".join(
        b"\x1c" + bytes(record) + struct.pack(">H", len(text)) + text for record, text in entries
    )
    content += b"\0" * (len(content) % 2)
    resource = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(content)) + content
    return b"Photoshop 3.0\0" + resource


def with_iptc(path, *entries):
    Image.new("RGB", (8, 8)).save(path)
    whole = path.read_bytes()
    block = iptc_block(*entries)
    segment = b"\xff\xed" + struct.pack(">H", len(block) + 2) + block
    path.write_bytes(whole[:2] + segment + whole[2:])
    return embedded_text(path)


def test_iptc_is_read_in_utf8_and_latin1(tmp_path):
    found = with_iptc(
        tmp_path / "a.jpg",
        ((2, 25), "café".encode()),
        ((2, 25), "été".encode("latin-1")),
        ((2, 120), b"A boat"),
    )
    assert found.keywords == ("café", "été")
    assert found.captions == ("A boat",)
    assert found.text == "A boat café été"
    assert with_iptc(tmp_path / "b.jpg", ((2, 25), b"one")).keywords == ("one",)


def test_xmp_keywords_and_descriptions_are_read(tmp_path):
    for name in ("a.jpg", "a.webp"):
        found = save(tmp_path / name, xmp=XMP.encode())
        assert found.keywords == ("café", "red boat")
        assert found.captions == ("A boat at sea",)


def test_exif_descriptions_and_keywords_are_read(tmp_path):
    exif = Image.Exif()
    exif[0x010E] = "A boat"
    exif[0x9C9B] = "Été\0".encode("utf-16-le")
    exif[0x9C9E] = "sea;red boat;\0".encode("utf-16-le")
    found = save(tmp_path / "a.jpg", exif=exif)
    assert found.captions == ("A boat", "Été")
    assert found.keywords == ("sea", "red boat")


def test_plain_damaged_and_hostile_files_have_no_text(tmp_path):
    assert save(tmp_path / "a.png").text == ""
    (tmp_path / "b.jpg").write_text("no image")
    assert embedded_text(tmp_path / "b.jpg").text == ""
    bomb = XMP.replace("<x:xmpmeta", '<!DOCTYPE x [<!ENTITY a "aaaa">]><x:xmpmeta', 1)
    assert save(tmp_path / "c.jpg", xmp=bomb.encode()).text == ""
    assert save(tmp_path / "d.jpg", xmp=XMP[:300].encode()).text == ""


@pytest.fixture
def holiday(tmp_path):
    """Images in two folders: one with a caption, one with keywords, others with names."""
    folder = tmp_path / "holiday"
    for i in range(10):
        draw(folder / "beach" / f"IMG_{i:04} red boat.jpg", i)
    draw(folder / "town" / "one.PNG", 20)
    (folder / "town" / "one.txt").write_bytes(b"Une rue\xc3\xa9\r\nla nuit\r\n")
    exif = Image.Exif()
    exif[0x9C9E] = "church;old town\0".encode("utf-16-le")
    draw(folder / "town" / "two.jpg", 21, exif=exif)
    draw(folder / "town" / ".hidden.jpg", 22)
    (folder / "notes.md").write_text("no image")
    return folder


def test_each_image_has_the_first_text_found(holiday):
    split = load(holiday)
    texts = dict(zip(split.pairs.keys, split.pairs.texts, strict=True))
    assert len(texts) == 12
    assert texts["beach/IMG_0003 red boat.jpg"] == "red boat"
    assert texts["town/one.PNG"] == "Une rueé la nuit"
    assert texts["town/two.jpg"] == "church old town"
    assert split.name == "holiday"
    assert split.pairs.labels is None


def test_one_kind_of_caption_can_be_selected(holiday):
    def texts(captions):
        return load(holiday, captions=captions).pairs.texts[-2:]

    assert texts("beside") == ["Une rueé la nuit", ""]
    assert texts("inside") == ["", "church old town"]
    assert texts("names") == ["one", "two"]


def test_folders_or_keywords_can_be_labels(holiday):
    pairs = load(holiday, labels="folders").pairs
    assert pairs.label_names == ["beach", "town"]
    assert pairs.labels.sum(axis=0).tolist() == [10, 2]
    sizes = {"n_query": 1, "n_validation": 1, "n_train": 1}
    for i in range(2):
        exif = Image.Exif()
        exif[0x9C9E] = "sea\0".encode("utf-16-le")
        draw(holiday / f"more{i}.jpg", i, exif=exif)
    assert load(holiday, labels="keywords", **sizes).pairs.label_names == [
        *("church", "old town", "sea")
    ]


def test_unreadable_images_are_skipped(holiday):
    (holiday / "town" / "broken boat.jpg").write_text("no image")
    split = load_folder(holiday)
    assert len(split.pairs) == 12
    assert {"red", "boat"} <= set(split.reader.vocabulary.terms)


def test_every_file_is_accounted_for(holiday):
    town = holiday / "town"
    (town / "two.TXT").write_text("the old church")
    (holiday / "beach" / "IMG_0001 red boat.txt").write_text(" \n")
    (holiday / "lost.txt").write_text("a caption without an image")
    (holiday / "clip.MP4").write_bytes(b"")
    content = folder_content(holiday)
    assert (content.n_images, content.n_captions, content.n_hidden) == (12, 3, 1)
    assert [path.name for path in content.empty_captions] == ["IMG_0001 red boat.txt"]
    assert [path.name for path in content.lone_captions] == ["lost.txt"]
    assert [path.name for path in content.others] == ["clip.MP4", "notes.md"]
    n_files = sum(path.is_file() for path in holiday.rglob("*"))
    parts = (content.n_images, content.n_captions, 1, len(content.others), content.n_hidden)
    assert sum(parts) == n_files
    assert list(content.lines()) == [
        "Folder: 12 images, 3 with a caption file.",
        "Empty caption files: IMG_0001 red boat.txt.",
        "Not read, texts without an image of their name: lost.txt.",
        "Not read, no known image format: 1 .mp4, 1 .md (clip.MP4, notes.md).",
        "Not read, hidden files: 1.",
    ]


def test_folder_names_replace_file_names_without_words(holiday):
    draw(holiday / "Summer 2019" / "beach" / "IMG_0042.jpg", 5)
    texts = {record.key: record.text for record in read(holiday).records}
    assert texts["Summer 2019/beach/IMG_0042.jpg"] == "Summer beach"
    draw(holiday / "IMG_0043.jpg", 6)
    assert {r.key: r.text for r in read(holiday).records}["IMG_0043.jpg"] == ""


def test_upper_case_and_empty_caption_files(holiday):
    (holiday / "town" / "two.TXT").write_text("the old church")
    (holiday / "beach" / "IMG_0001 red boat.txt").write_text(" \n")
    texts = {record.key: record.text for record in read(holiday).records}
    assert texts["town/two.jpg"] == "the old church"
    assert texts["beach/IMG_0001 red boat.jpg"] == "red boat"  # its name


def test_mistakes_are_explained(tmp_path, holiday):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"No images found in .*empty \(.jpg"):
        load(tmp_path / "empty")
    with pytest.raises(InputError, match="captions must be one of auto, beside"):
        load(holiday, captions="tags")
    (holiday / "town" / "one.txt").unlink()
    with pytest.raises(InputError, match="No text found for any of the 12 images"):
        load(holiday, captions="beside")


def test_an_index_reads_the_same_keys_texts_and_labels(holiday):
    stream = read(holiday, labels="folders")
    records = list(stream.records)
    pairs = load(holiday, labels="folders").pairs
    assert [record.key for record in records] == pairs.keys
    assert [record.text for record in records] == pairs.texts
    assert records[-1].labels == ["town"]
    assert stream.total == 12

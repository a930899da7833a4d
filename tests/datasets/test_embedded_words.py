"""Words inside pictures, as photo programs write them."""

import struct

from PIL import Image

from corrhash.datasets.embedded_words import embedded_words

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
    return embedded_words(path)


def iptc_block(*entries):
    """The block of a JPEG in which Photoshop keeps IPTC."""
    content = b"".join(
        b"\x1c" + bytes(place) + struct.pack(">H", len(text)) + text for place, text in entries
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
    return embedded_words(path)


def test_keywords_and_captions_of_iptc_in_old_and_new_encodings(tmp_path):
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


def test_keywords_and_descriptions_of_xmp(tmp_path):
    for name in ("a.jpg", "a.webp"):
        found = save(tmp_path / name, xmp=XMP.encode())
        assert found.keywords == ("café", "red boat")
        assert found.captions == ("A boat at sea",)


def test_descriptions_and_keywords_of_exif(tmp_path):
    exif = Image.Exif()
    exif[0x010E] = "A boat"
    exif[0x9C9B] = "Été\0".encode("utf-16-le")
    exif[0x9C9E] = "sea;red boat;\0".encode("utf-16-le")
    found = save(tmp_path / "a.jpg", exif=exif)
    assert found.captions == ("A boat", "Été")
    assert found.keywords == ("sea", "red boat")


def test_nothing_is_found_in_plain_damaged_or_hostile_files(tmp_path):
    assert save(tmp_path / "a.png").text == ""
    (tmp_path / "b.jpg").write_text("no picture")
    assert embedded_words(tmp_path / "b.jpg").text == ""
    bomb = XMP.replace("<x:xmpmeta", '<!DOCTYPE x [<!ENTITY a "aaaa">]><x:xmpmeta', 1)
    assert save(tmp_path / "c.jpg", xmp=bomb.encode()).text == ""
    assert save(tmp_path / "d.jpg", xmp=XMP[:300].encode()).text == ""

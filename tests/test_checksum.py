"""Checksums: those that other programs print."""

from corrhash.checksum import file_sha256


def test_the_checksum_of_a_file_is_the_published_one(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")  # the example of the standard, FIPS 180-4
    assert file_sha256(tmp_path / "abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )

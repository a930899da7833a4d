"""Downloads: whole, resumed, shared, checked, and refused with the way out."""

import hashlib
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from corrhash import InputError
from corrhash.networks import download as downloading
from corrhash.networks.download import download
from corrhash.progress import listening
from tests.networks.file_server import serve

CONTENT = np.random.default_rng(0).bytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _direct_and_impatient(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloading, "PATIENCE", 5.0)


@pytest.mark.parametrize("digits", [8, 64])
def test_a_file_is_fetched_once(tmp_path, digits):
    with serve(CONTENT) as server:
        for _ in range(2):
            path = download(f"{server.url}/w.pth", SHA256[:digits], tmp_path / "new")
        assert len(server.requests) == 1
    assert path == tmp_path / "new" / "w.pth"
    assert path.read_bytes() == CONTENT
    assert not (tmp_path / "new" / ".w.pth.part").exists()


def test_megabytes_are_reported(tmp_path):
    steps = []
    with serve(CONTENT) as server, listening(steps.append):
        download(f"{server.url}/w.pth", SHA256, tmp_path)
    assert steps[0].task == "Downloading w.pth (MB)"
    assert (steps[-1].done, steps[-1].total) == (3, 3)
    assert len(steps) >= 3


def test_a_broken_download_says_so_and_goes_on_where_it_stopped(tmp_path):
    with serve(CONTENT, breaks_after=1_200_000) as server:
        with pytest.raises(InputError, match=r"broke after 1,200,000 of 3,000,000.*goes on where"):
            download(f"{server.url}/w.pth", SHA256, tmp_path)
        assert not (tmp_path / "w.pth").exists()
        server.breaks_after = None
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT
        assert server.requests == [None, "bytes=1200000-"]


def test_a_host_that_cannot_resume_starts_anew(tmp_path):
    (tmp_path / ".w.pth.part").write_bytes(CONTENT[:1000])
    with serve(CONTENT, resumes=False) as server:
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT


def test_a_part_that_is_complete_is_taken(tmp_path):
    (tmp_path / ".w.pth.part").write_bytes(CONTENT)
    with serve(CONTENT) as server:
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path):
    (tmp_path / "w.pth").write_bytes(CONTENT[:-1])
    with serve(CONTENT) as server:
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_nothing_is_left(tmp_path):
    other = hashlib.sha256(b"other").hexdigest()
    message = f"begins with {SHA256[:8]}, not with {other[:8]}. It was removed"
    with serve(CONTENT) as server, pytest.raises(InputError, match=message):
        download(f"{server.url}/w.pth", other[:8], tmp_path)
    assert not list(tmp_path.glob("*w.pth"))
    assert not list(tmp_path.glob(".w.pth.part"))


def test_several_at_once_share_one_download(tmp_path):
    with serve(CONTENT) as server, ThreadPoolExecutor(4) as threads:
        asked = [
            threads.submit(download, f"{server.url}/w.pth", SHA256, tmp_path) for _ in range(4)
        ]
        assert all(each.result().read_bytes() == CONTENT for each in asked)
        assert len(server.requests) == 1


def test_what_the_host_does_not_have_is_refused(tmp_path):
    message = r"Cannot download http.*w.pth into .*: Not Found. Try again"
    with serve(b"", status=404) as server, pytest.raises(InputError, match=message):
        download(f"{server.url}/w.pth", SHA256, tmp_path)


def test_an_unreachable_host_is_refused(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/w.pth"
        with pytest.raises(InputError, match=r"Cannot download .*refused.*give its path"):
            download(url, SHA256, tmp_path)


def test_a_silent_host_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(downloading, "PATIENCE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/w.pth"
        with pytest.raises(InputError, match="timed out.*give its path"):
            download(url, SHA256, tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"Cannot download .* into .*file/cache"):
        download("http://127.0.0.1:9/w.pth", SHA256, tmp_path / "file" / "cache")

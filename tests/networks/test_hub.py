"""Downloads of encoders from a hub: announced, refused offline, found in the cache afterwards."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from corrhash import InputError
from corrhash.networks.encoder_files import locate
from corrhash.networks.hub import announce_model, cached_snapshot
from corrhash.networks.onnx_encoder import open_image_encoder, open_text_encoder
from tests.networks import onnx_folders as tiny

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB_ID = "someone/clip-tiny"


class Handler(BaseHTTPRequestHandler):
    """The two requests of the hub that a download needs: the list of files, and a file."""

    def do_GET(self):
        server, path = self.server, self.path.partition("?")[0].lstrip("/")
        server.requests.append((self.command, path))
        if path == f"api/models/{HUB_ID}":
            files = [{"rfilename": n, "size": len(c)} for n, c in server.files.items()]
            self.reply(json.dumps({"id": HUB_ID, "sha": COMMIT, "siblings": files}).encode())
            return
        name = path.removeprefix(f"{HUB_ID}/resolve/main/")
        if name not in server.files:
            self.send_error(404)
            return
        self.reply(server.files[name], etag=f"{len(name)}-{name.replace('/', '-')}")

    do_HEAD = do_GET

    def reply(self, content, etag=None):
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Repo-Commit", COMMIT)
        if etag:
            self.send_header("ETag", f'"{etag}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    folder = tiny.save_clip(tmp_path / "clip")
    tiny.save_image_network(folder / "onnx" / "vision_model_quantized.onnx")
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("CORRHASH_OFFLINE")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.requests = files, []
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(timeout=10)


def test_model_is_fetched_once_and_announced(hub, monkeypatch, caplog):
    images = np.zeros((1, 16, 16, 3), np.uint8)
    assert open_image_encoder(f"onnx:{HUB_ID}").compute(images).shape == (1, tiny.WIDTH)
    assert f"Downloading {HUB_ID}: 1 MB." in caplog.text
    fetched = {path for command, path in hub.requests if command == "GET"}
    assert f"{HUB_ID}/resolve/main/onnx/vision_model.onnx" in fetched
    assert not any("quantized" in path for path in fetched)
    hub.requests.clear()
    monkeypatch.setenv("CORRHASH_OFFLINE", "1")
    assert open_text_encoder(HUB_ID).compute(["red boat"]).shape == (1, tiny.WIDTH)
    assert hub.requests == []
    assert locate(HUB_ID) == cached_snapshot(HUB_ID)
    assert open_text_encoder(HUB_ID).source == HUB_ID


def test_downloads_are_refused_offline(hub, monkeypatch):
    monkeypatch.setenv("CORRHASH_OFFLINE", "1")
    with pytest.raises(InputError, match=r"onnx:someone/clip-tiny is not on this machine"):
        open_image_encoder(f"onnx:{HUB_ID}")
    with pytest.raises(InputError, match=r"hf:someone/clip-tiny is not on this machine"):
        announce_model(HUB_ID)
    assert hub.requests == []


def test_unknown_models_and_models_without_onnx_are_refused(hub):
    with pytest.raises(InputError, match=r"Cannot reach someone/else on the Hugging Face Hub"):
        open_image_encoder("onnx:someone/else")
    hub.files = {"config.json": b"{}", "model.safetensors": b"0" * 5_000_000}
    with pytest.raises(InputError, match=r"clip-tiny has no ONNX file with an expected name"):
        open_image_encoder(f"onnx:{HUB_ID}")


def test_a_whole_model_is_announced_with_its_weights(hub, caplog):
    hub.files = {"config.json": b"{}", "model.safetensors": b"0" * 5_000_000, "x.bin": b"0" * 9}
    announce_model(HUB_ID)
    assert f"Downloading {HUB_ID}: 5 MB." in caplog.text

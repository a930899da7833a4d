"""Model folders of strangers: nothing outside the folder is read, written, run or contacted."""

import copy
import hashlib
import json
import os
import pickle
import random
import socket
from contextlib import suppress

import numpy as np
import pytest
from safetensors.numpy import save

from corrhash import Collection, InputError
from corrhash._model_files import check_keys, json_checksum, read_file, read_json, write_json
from corrhash.datasets import PairedDataset, Reader, Vocabulary, make_pairs
from corrhash.datasets.image_features import ImageFeatures
from corrhash.methods import METHODS
from corrhash.methods.onnx_export import export_onnx
from corrhash.model import Model, TrainingRun, load_model
from corrhash.networks.config import Networks
from corrhash.training.config import Training

IMAGES = np.random.default_rng(0).integers(0, 255, (20, 32, 32, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "linear"
    pairs = make_pairs(120, seed=0)
    terms = Vocabulary(tuple(f"t{i}" for i in range(pairs.texts.shape[1])))
    training = TrainingRun("synthetic", 0, {"n": 120}, "none")
    Model(METHODS["cvh"](8).fit(pairs), Reader(terms), training).save(folder)
    return folder


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A network on pixels, exported to ONNX."""
    folder = tmp_path_factory.mktemp("models") / "network"
    labels = np.eye(2, dtype=int)[np.arange(20) % 2]
    pairs = PairedDataset(IMAGES, labels.astype(np.float32), labels)
    small = {"networks": Networks(image_size=32, width=8), "training": Training(epochs=1)}
    Model(METHODS["chn"](8, **small).fit(pairs), Reader(Vocabulary(("a", "b")))).save(folder)
    export_onnx(folder)
    return folder


@pytest.fixture
def copied(tmp_path):
    """A function that copies a model folder."""

    def copy_of(folder, name="m"):
        (tmp_path / name).mkdir()
        for path in folder.iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
        return tmp_path / name

    return copy_of


def edit(path, change):
    """Change the content of a JSON file, and correct its checksum as an attacker would."""
    whole = json.loads(path.read_bytes())
    whole = change(whole) or whole
    whole["sha256"] = json_checksum(whole)
    path.write_text(json.dumps(whole))


def use(folder):
    """Load a model and encode with both modalities."""
    model = load_model(folder)
    texts = model.reader.read_texts(["a t1 t2", "b t3"])
    model.hasher.encode_text(texts)
    images = IMAGES[:2] if model.hasher.image_features is None else np.ones((2, 256))
    model.hasher.encode_image(images)


LEAVING = ("../victim.onnx", "/etc/passwd", "a/../../victim.onnx", "..", "", ".", "a\0b", 7, None)


@pytest.mark.parametrize("name", LEAVING)
@pytest.mark.parametrize("modality", ["image", "text"])
def test_exported_files_cannot_leave_the_folder(network, copied, tmp_path, modality, name):
    folder = copied(network)
    (tmp_path / "victim.onnx").write_text("precious")
    edit(folder / "onnx.json", lambda content: content[modality].update(file=name))
    with pytest.raises(InputError, match=r"plain file names only|wrong type of 'file'"):
        Collection.create(tmp_path / "c", folder)
    assert (tmp_path / "victim.onnx").read_text() == "precious"
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("name", ["../arrays-0123456789abcdef.safetensors", "/etc/passwd", "x"])
def test_arrays_cannot_leave_the_folder(linear, copied, name):
    folder = copied(linear)
    edit(folder / "hasher.json", lambda content: content.update(arrays=name))
    with pytest.raises(InputError, match="expected arrays-CHECKSUM.safetensors"):
        load_model(folder)


def test_links_are_not_followed(network, copied, tmp_path):
    secret = tmp_path / "secret"
    for number, name in enumerate(path.name for path in network.iterdir()):
        folder = copied(network, f"m{number}")
        secret.write_bytes((folder / name).read_bytes())  # even with the right checksum
        (folder / name).unlink()
        (folder / name).symlink_to(secret)
        with pytest.raises(InputError, match="it is a symbolic link"):
            Collection.create(tmp_path / "c", folder)
        assert not (tmp_path / "c" / "collection.db").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_are_refused_without_waiting(linear, copied):
    for number, name in enumerate(path.name for path in linear.iterdir()):
        folder = copied(linear, f"m{number}")
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(InputError, match="it is a pipe or a device, not a regular file"):
            load_model(folder)


def test_files_are_verified_before_they_are_copied(network, copied, tmp_path):
    for number, path in enumerate(network.glob("*.onnx")):
        folder = copied(network, f"m{number}")
        (folder / path.name).write_bytes(path.read_bytes()[:-1] + b"?")
        with pytest.raises(InputError, match="its checksum differs"):
            Collection.create(tmp_path / "c", folder)


def test_onnx_files_cannot_refer_to_other_files(network, copied):
    import onnx

    folder = copied(network)
    path = next(folder.glob("image-*.onnx"))
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        onnx.external_data_helper.set_external_data(tensor, "../../etc/passwd")
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
    path.write_bytes(model.SerializeToString())
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    edit(folder / "onnx.json", lambda content: content["image"].update(sha256=sha256))
    with pytest.raises(InputError, match="refers to other files"):
        use(folder)


def test_edited_json_is_refused_by_its_checksum(linear, copied):
    folder = copied(linear)
    for path in folder.glob("*.json"):
        text = path.read_text()
        path.write_text(text.replace('"t7"', '"t8x"').replace('"seed": 0', '"seed": 1'))
        path.write_text(path.read_text().replace('"n_bits": 8', '"n_bits": 9'))
        if path.read_text() != text:
            with pytest.raises(InputError, match="is damaged or was edited"):
                load_model(folder)
        path.write_text(text)
    load_model(folder)


def test_deeply_nested_json_gets_one_error(network, copied):
    for number, path in enumerate(network.glob("*.json")):
        for deep in ("[" * 200_000, '{"a":' * 200_000):
            folder = copied(network, f"m{number}{deep[0]}")
            (folder / path.name).write_text(deep)
            with pytest.raises(InputError, match="is nested too deeply"):
                load_model(folder)


VALUES = (None, True, -1, 0, 2**70, 0.5, float("nan"), "x", "", [], [1], {}, {"a": 1}, "../x")


def mutated(value, rng):
    """Return a copy of JSON content with one value, key or entry changed."""
    value = copy.deepcopy(value)
    at = value
    while True:
        if isinstance(at, dict) and at:
            key = rng.choice(sorted(at))
        elif isinstance(at, list) and at:
            key = rng.randrange(len(at))
        else:
            return rng.choice(VALUES)
        inner = at[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.7:
            at = inner
            continue
        match rng.randrange(4) if isinstance(at, dict) else 0:
            case 1:
                del at[key]
            case 2:
                at[f"{key}_"] = rng.choice(VALUES)
            case 3:
                at[rng.choice(["__class__", "encode_text", ""])] = rng.choice(VALUES)
            case _:
                at[key] = rng.choice(VALUES)
        return value


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_edited_models_work_or_get_one_error(kind, request, copied):
    source, rng = request.getfixturevalue(kind), random.Random(1)
    names = sorted(path.name for path in source.glob("*.json"))
    for number in range(40):
        folder = copied(source, f"m{number}")
        path = folder / rng.choice(names)
        content = mutated(json.loads(path.read_bytes()), rng)
        if isinstance(content, dict):
            content["sha256"] = json_checksum(content)
        path.write_text(json.dumps(content))
        with suppress(InputError):
            use(folder)


def test_arrays_cannot_replace_methods(linear, copied):
    folder = copied(linear)
    for name in ("encode_text", "n_bits", "__class__", "_embed_text", "_folder"):
        content = save({name: np.ones(3)})
        arrays = f"arrays-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
        (folder / arrays).write_bytes(content)
        edit(folder / "hasher.json", lambda content, arrays=arrays: content.update(arrays=arrays))
        with pytest.raises(InputError, match="that no method learns"):
            load_model(folder)


def test_unknown_classes_are_not_imported(linear, copied):
    folder = copied(linear)
    edit(folder / "hasher.json", lambda content: content.update(method="os:system"))
    with pytest.raises(InputError, match="holds a model of class os:system"):
        load_model(folder)


@pytest.fixture
def no_network(monkeypatch):
    """Fail on every attempt to reach another machine."""
    attempts = []

    def refuse(*arguments, **options):
        attempts.append(arguments)
        raise RuntimeError("no network in this test")  # an OSError would be tried again

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return attempts


@pytest.mark.parametrize("name", ["hf:stranger/encoder", "onnx:stranger/encoder", "alexnet-fc7"])
def test_features_of_a_model_are_not_downloaded(
    linear, copied, no_network, name, monkeypatch, tmp_path
):
    pytest.importorskip("transformers")
    monkeypatch.delenv("CORRHASH_OFFLINE", raising=False)
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    folder = copied(linear)
    features = ImageFeatures(name, sha256="ab" * 32).description()
    edit(folder / "reader.json", lambda content: content.update(image_features=features))
    model = load_model(folder)
    with pytest.raises(InputError, match=r"(encoder hf:|onnx:|weights file ).*--allow-download"):
        model.reader.read_images(IMAGES)
    assert not no_network
    allowed = load_model(folder, allow_download=True)
    with pytest.raises((InputError, RuntimeError), match=r"Cannot (load|reach)|no network"):
        allowed.reader.read_images(IMAGES)
    assert no_network


@pytest.mark.parametrize("modality", ["image", "text"])
def test_encoders_of_a_model_are_not_downloaded(network, copied, no_network, modality):
    pytest.importorskip("transformers")
    folder = copied(network)
    (folder / "onnx.json").unlink()

    def change(content):
        content["params"]["networks"] |= {modality: "hf:stranger/encoder", "image_size": None}
        content["learned"]["inputs"] = {"image": None, "text": None}

    edit(folder / "hasher.json", change)
    hasher = load_model(folder).hasher
    with pytest.raises(InputError, match="needs the encoder hf:stranger/encoder.*allow-download"):
        hasher.encode_image(IMAGES) if modality == "image" else hasher.encode_text(["a"])
    assert not no_network


def test_features_without_a_checksum_are_refused(linear, copied):
    folder = copied(linear)
    features = ImageFeatures("hf:stranger/encoder").description()
    edit(folder / "reader.json", lambda content: content.update(image_features=features))
    with pytest.raises(InputError, match="must state the SHA-256 of hf:stranger/encoder, got None"):
        load_model(folder)


class Trap:
    """Unpickling this would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("kind", ["auto_map", "pickle"])
def test_code_of_an_encoder_is_not_run(tmp_path, no_network, kind):
    pytest.importorskip("transformers")
    sprung, folder = tmp_path / "sprung", tmp_path / "encoder"
    folder.mkdir()
    (folder / "evil.py").write_text(f"open({str(sprung)!r}, 'w')\nclass Evil: pass\n")
    config = {"model_type": "evil", "auto_map": {"AutoModel": "evil.Evil", "AutoConfig": "evil.E"}}
    if kind == "pickle":
        config = {"model_type": "vit", "hidden_size": 8, "num_attention_heads": 2}
        config |= {"num_hidden_layers": 1, "intermediate_size": 8, "image_size": 32}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {"image_processor_type": "ViTImageProcessor", "auto_map": config.get("auto_map")}
        )
    )
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Trap(sprung)}))
    with pytest.raises(InputError, match="Cannot load"):
        ImageFeatures(f"hf:{folder}").of_images(IMAGES)
    assert not sprung.exists()


def test_json_is_written_with_a_checksum(tmp_path):
    write_json(tmp_path, "a.json", "format 1", {"x": 1})
    assert read_json(tmp_path, "a.json", "format 1", {"x": int}) == {"x": 1}
    with pytest.raises(InputError, match="has format 'format 1', but this version reads"):
        read_json(tmp_path, "a.json", "format 2", {"x": int})
    with pytest.raises(InputError, match="has the unknown key 'x'"):
        read_json(tmp_path, "a.json", "format 1", {})
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path, "b.json", "format 1", {})
    with pytest.raises(InputError, match="expected str or null, got int"):
        check_keys({"x": 1}, {"x": (str, type(None))}, "a.json")
    with pytest.raises(InputError, match="expected int, got bool"):
        check_keys({"x": True}, {"x": int}, "a.json")
    with pytest.raises(InputError, match="is missing. Copy the whole folder"):
        read_file(tmp_path, "b.onnx")

"""ONNX encoders: features against NumPy, layouts of exports, and errors that name the fix."""

import json

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.networks.onnx_encoder import open_image_encoder, open_text_encoder
from tests.networks import onnx_folders as tiny


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(3).integers(0, 256, (5, 16, 24, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mean_of_tokens(text):
    ids = [2, *(tiny.WORDS.index(w) if w in tiny.WORDS else 1 for w in text.split()), 3]
    return tiny.token_table()[ids].mean(axis=0)


def expected_clip_features(images):
    """Resize the shorter side to 10 pixels, crop 8 x 8, normalize, multiply."""
    rows = []
    for pixels in images:
        small = Image.fromarray(pixels).resize((15, 10), Image.Resampling.BICUBIC)
        left = (15 - 10) // 2 + 1
        crop = np.asarray(small, np.float32)[1:9, left : left + 8] / 255
        rows.append(((crop - 0.5) / 0.25).transpose(2, 0, 1).ravel())
    return unit(np.stack(rows) @ tiny.image_weights())


def test_clip_export_embeds_images_and_texts(tmp_path, images):
    folder = tiny.save_clip(tmp_path / "clip")
    found = open_image_encoder(f"onnx:{folder}").compute(images)
    np.testing.assert_allclose(found, expected_clip_features(images), atol=1e-5)
    texts = ["a red boat", "two tree sky sea"]
    expected = unit(np.stack([mean_of_tokens(text) for text in texts]))
    np.testing.assert_allclose(open_text_encoder(str(folder)).compute(texts), expected, atol=1e-5)


def test_immich_layout_pads_tokens_to_a_fixed_length(tmp_path, images):
    folder = tmp_path / "clip"
    tiny.save_image_network(folder / "visual" / "model.onnx", name="image", output="embedding")
    tiny.save_text_network(
        folder / "textual" / "model.onnx", length=6, name="text", integer="INT32"
    )
    tiny.save_tokenizer(folder / "textual" / "tokenizer.json")
    settings = {"size": [8, 8], "resize_mode": "squash", "interpolation": "bilinear"}
    (folder / "visual" / "preprocess_cfg.json").write_text(json.dumps(settings))
    assert open_image_encoder(str(folder)).compute(images).shape == (5, tiny.WIDTH)
    encoder = open_text_encoder(str(folder))
    np.testing.assert_allclose(
        encoder.compute(["red boat"]), unit(mean_of_tokens("red boat")[None]), atol=1e-5
    )
    longer = encoder.compute(["red boat tree sky sea two"])  # four words and the marks fit
    np.testing.assert_allclose(longer, encoder.compute(["red boat tree sky"]), atol=1e-6)


def test_sentence_encoder_averages_tokens(tmp_path):
    encoder = open_text_encoder(str(tiny.save_sentence_encoder(tmp_path / "mini")))
    texts = ["red boat", "a", "unknown words only"]
    expected = unit(np.stack([mean_of_tokens(text) for text in texts]))
    np.testing.assert_allclose(encoder.compute(texts), expected, atol=1e-5)
    assert encoder.name == "onnx-mini"
    assert encoder.n_features == tiny.WIDTH


def test_declared_pooling_takes_the_first_token(tmp_path):
    folder = tiny.save_sentence_encoder(tmp_path / "mini")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    found = open_text_encoder(str(folder)).compute(["red boat"])
    np.testing.assert_allclose(found, unit(tiny.token_table()[[2]]), atol=1e-6)


def test_features_do_not_depend_on_other_items(tmp_path, images):
    encoder = open_image_encoder(str(tiny.save_clip(tmp_path / "clip")))
    together = encoder.compute(images)
    for row in range(len(images)):
        np.testing.assert_array_equal(encoder.compute(images[[row]])[0], together[row])


def test_inner_tensor_becomes_the_output_once(tmp_path, images):
    folder = tiny.save_image_encoder(tmp_path / "encoder")
    whole = open_image_encoder(str(folder)).compute(images)
    settings = json.loads((folder / "encoder.json").read_text())
    settings["image"]["output"] = "inner"
    (folder / "encoder.json").write_text(json.dumps(settings))
    cut = open_image_encoder(str(folder))
    np.testing.assert_array_equal(cut.compute(images), whole)
    assert len([*(tmp_path / "cache" / "onnx").iterdir()]) == 1
    settings["image"]["output"] = "nowhere"
    (folder / "encoder.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=r"no tensor 'nowhere'. Outputs: features"):
        open_image_encoder(str(folder)).compute(images)


def test_settings_of_a_file_are_beside_it(tmp_path, images):
    tiny.save_image_network(tmp_path / "net.onnx")
    plain = open_image_encoder(str(tmp_path / "net.onnx"))
    raw = {"image": {"mean": [0, 0, 0], "std": [1, 1, 1], "resample": "nearest"}}
    (tmp_path / "net.json").write_text(json.dumps(raw))
    changed = open_image_encoder(str(tmp_path / "net.onnx"))
    assert plain.key != changed.key
    assert np.abs(plain.compute(images) - changed.compute(images)).max() > 0.1
    assert changed.tower.preprocessing.resample == Image.Resampling.NEAREST


def test_key_covers_network_tokenizer_and_settings(tmp_path):
    folder = tiny.save_sentence_encoder(tmp_path / "mini")
    keys = {open_text_encoder(str(folder)).key}
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 5}')
    keys.add(open_text_encoder(str(folder)).key)
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("sea", "lake"))
    keys.add(open_text_encoder(str(folder)).key)
    tiny.save_text_network(folder / "onnx" / "model.onnx", pooled=True)
    keys.add(open_text_encoder(str(folder)).key)
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image": {"colour": 1}}, r"Unknown setting 'colour' of the image encoder.*Valid: file"),
        ({"image": {"file": "no.onnx"}}, r"names .*no.onnx, which does not exist"),
        ({"image": {"pooling": "max"}}, r"pooling must be one of first, mean, none, got max"),
        ({"image": {"mean": [1, 2]}}, r"mean must have 3 numbers, got 2"),
        ({"picture": {}}, r"Unknown entry 'picture' in .*encoder.json"),
        ({"text": {}}, r"has no image encoder: its encoder.json describes text"),
    ],
)
def test_invalid_settings_are_named(tmp_path, settings, message):
    folder = tiny.save_image_encoder(tmp_path / "encoder")
    if "image" in settings:
        settings["image"] = {"file": "net.onnx", **settings["image"]}
    (folder / "encoder.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=message):
        open_image_encoder(str(folder))


def test_wrong_sources_are_rejected(tmp_path):
    with pytest.raises(InputError, match=r"Encoder not found: .*nothing"):
        open_image_encoder(str(tmp_path / "nothing"))
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"a folder or a file that ends in .onnx"):
        open_image_encoder(str(tmp_path / "weights.bin"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"No text network found in .*encoder.json"):
        open_text_encoder(str(tmp_path / "empty"))
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    with pytest.raises(InputError, match=r"Cannot load the network .*bad.onnx"):
        open_image_encoder(str(tmp_path / "bad.onnx")).compute([np.zeros((8, 8, 3), np.uint8)])
    folder = tiny.save_sentence_encoder(tmp_path / "mini")
    with pytest.raises(InputError, match=r"does not encode images only.*input_ids"):
        open_image_encoder(str(folder)).compute([np.zeros((8, 8, 3), np.uint8)])
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"needs a tokenizer.json in its folder"):
        open_text_encoder(str(folder))

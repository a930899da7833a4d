"""Hugging Face encoders: tiny ones, built from configurations and saved locally."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from corrhash import InputError
from corrhash.networks.transformers import HubImageEncoder, HubTextEncoder, as_preprocessing

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "boat", "tree", "sky", "two"]
TINY = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
VISION = {**TINY, "image_size": 32, "patch_size": 8}
TEXT = {**TINY, "vocab_size": len(WORDS), "max_position_embeddings": 12}
SQUARE = {"size": {"height": 32, "width": 32}}
SHARE = {"size": {"shortest_edge": 32}, "crop_pct": 0.8}
MIDDLE = {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}


def save_tokenizer(library, folder):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel(dict(zip(WORDS, range(99), strict=False)), "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=marks
    )
    library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)


def save_two_towers(library, folder, name, **options):
    config = getattr(library, f"{name}Config")(
        text_config={**TEXT, **options, "eos_token_id": 3, "pad_token_id": 0},
        vision_config=VISION,
        **({"projection_dim": 8} if name == "CLIP" else {}),
    )
    getattr(library, f"{name}Model")(config).save_pretrained(folder)
    save_tokenizer(library, folder)
    size = MIDDLE if name == "CLIP" else SQUARE
    getattr(library, f"{name}ImageProcessor")(**size).save_pretrained(folder)


def save_images(library, folder, name, config, processor, size):
    config = getattr(library, f"{name}Config")(**config)
    getattr(library, f"{name}Model")(config).save_pretrained(folder)
    getattr(library, f"{processor}ImageProcessor")(**size).save_pretrained(folder)


def save_bert(library, folder):
    library.BertModel(library.BertConfig(**TEXT)).save_pretrained(folder)
    save_tokenizer(library, folder)


RESNET = {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1], "layer_type": "basic"}
MAKERS = {
    "vit": lambda lib, folder: save_images(lib, folder, "ViT", VISION, "ViT", SQUARE),
    "dinov2": lambda lib, folder: save_images(lib, folder, "Dinov2", VISION, "Bit", MIDDLE),
    "resnet": lambda lib, folder: save_images(lib, folder, "ResNet", RESNET, "ConvNext", SHARE),
    "clip": lambda lib, folder: save_two_towers(lib, folder, "CLIP"),
    "siglip": lambda lib, folder: save_two_towers(lib, folder, "Siglip", projection_size=16),
    "bert": save_bert,
}
IMAGE_WIDTHS = {"vit": 16, "dinov2": 16, "resnet": 12, "clip": 8, "siglip": 16}
TEXT_WIDTHS = {"clip": 8, "siglip": 16, "bert": 16}
TEXTS = ["a red boat", "sky", "a tree a tree a tree a tree a tree a tree", ""]


@pytest.fixture(scope="module")
def folders(library, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    for name, make in MAKERS.items():
        make(library, root / name)
    return root


@pytest.fixture
def images():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 6, 8, 3), dtype=np.uint8)
    return [Image.fromarray(p).resize((60, 45), Image.Resampling.BILINEAR) for p in pixels]


@pytest.mark.parametrize("name", IMAGE_WIDTHS)
def test_image_encoders_return_their_pooled_output(folders, images, library, name):
    encoder = HubImageEncoder(f"hf:{folders / name}")
    plan = encoder.preprocessing
    features = encoder(torch.from_numpy(plan.plain(plan.read(images))))
    assert features.shape == (3, IMAGE_WIDTHS[name])
    assert encoder.n_features == IMAGE_WIDTHS[name]
    model = library.AutoModel.from_pretrained(folders / name).eval()
    inputs = {"pixel_values": torch.from_numpy(plan.plain(plan.read(images)))}
    with torch.no_grad():
        two_towers = hasattr(model, "get_image_features")
        output = model.get_image_features(**inputs) if two_towers else model(**inputs)
    expected = output if torch.is_tensor(output) else output.pooler_output.flatten(1)
    assert torch.allclose(features, expected, atol=1e-6)


@pytest.mark.parametrize("name", IMAGE_WIDTHS)
def test_preprocessing_equals_that_of_the_processor(folders, images, library, name):
    plan = HubImageEncoder(folders / name).preprocessing
    processor = library.AutoImageProcessor.from_pretrained(folders / name)
    expected = processor(images=images, return_tensors="pt")["pixel_values"]
    ours = torch.from_numpy(plan.plain(plan.read(images)))
    assert ours.shape == expected.shape
    assert (ours - expected).abs().mean() < 0.01


def test_processors_without_normalization_or_squares(library):
    plan = as_preprocessing(library.ViTImageProcessor(**SQUARE, do_normalize=False))
    assert (plan.mean, plan.std) == ((0, 0, 0), (1, 1, 1))
    with pytest.raises(InputError, match="32 x 48 pixels.*square images"):
        as_preprocessing(library.ViTImageProcessor(size={"height": 32, "width": 48}))


@pytest.mark.parametrize("name", TEXT_WIDTHS)
def test_text_features_do_not_depend_on_the_batch(folders, name):
    encoder = HubTextEncoder(f"hf:{folders / name}")
    together = encoder(encoder.tokenize(TEXTS))
    alone = torch.cat([encoder(encoder.tokenize([text])) for text in TEXTS])
    assert together.shape == (4, TEXT_WIDTHS[name])
    assert encoder.n_features == TEXT_WIDTHS[name]
    assert torch.allclose(together, alone, atol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=1e-5)


@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_the_declared_pooling_is_used(folders, library, tmp_path, mode):
    save_bert(library, tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    declared = {"pooling_mode_mean_tokens": mode == "mean", "pooling_mode_cls_token": mode == "cls"}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(declared))
    encoder = HubTextEncoder(tmp_path)
    tokens = encoder.tokenize(TEXTS[:2])
    with torch.no_grad():
        hidden = encoder.model(**tokens).last_hidden_state
    assert tokens["attention_mask"][1].tolist() == [1, 1, 1, 0, 0]
    expected = hidden[1, 0] if mode == "cls" else hidden[1, :3].mean(0)
    assert torch.allclose(encoder(tokens)[1], expected, atol=1e-6)


def test_a_pooler_without_weights_is_not_used(library, tmp_path, images):
    classifier = library.ViTForImageClassification(library.ViTConfig(**VISION))
    classifier.save_pretrained(tmp_path)  # classifiers of this kind have no pooler
    library.ViTImageProcessor(**SQUARE).save_pretrained(tmp_path)
    first, second = HubImageEncoder(tmp_path), HubImageEncoder(tmp_path)
    plan = first.preprocessing
    pixels = torch.from_numpy(plan.plain(plan.read(images)))
    assert first.pooling == "mean"
    assert torch.equal(first(pixels), second(pixels))


def test_half_precision_weights_are_loaded_as_float32(library, vit_folder, tmp_path):
    library.AutoModel.from_pretrained(vit_folder).half().save_pretrained(tmp_path)
    library.ViTImageProcessor(**SQUARE).save_pretrained(tmp_path)
    encoder = HubImageEncoder(tmp_path)
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    assert encoder(torch.zeros(1, 3, 32, 32)).dtype == torch.float32


def test_a_frozen_encoder_has_no_gradients(folders):
    encoder = HubImageEncoder(folders / "vit").train()
    assert not encoder.training
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    assert not encoder(torch.zeros(1, 3, 32, 32)).requires_grad


@pytest.mark.parametrize(("kind", "name"), [(HubImageEncoder, "clip"), (HubTextEncoder, "siglip")])
def test_fine_tuning_keeps_one_tower_only(folders, kind, name):
    encoder = kind(folders / name, frozen=False)
    inputs = torch.zeros(2, 3, 32, 32) if kind is HubImageEncoder else encoder.tokenize(TEXTS)
    assert encoder.training
    encoder(inputs).sum().backward()
    other = "text_" if kind is HubImageEncoder else "vision_"
    names = [n for n, p in encoder.named_parameters() if p.grad is not None]
    assert names
    assert not any(f"model.{other}" in n for n, _ in encoder.named_parameters())


def test_models_that_cannot_be_loaded_are_named(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="Cannot load .* with AutoModel: .*save_pretrained"):
        HubImageEncoder(f"hf:{tmp_path}")
    with pytest.raises(InputError, match="Cannot load .*bert' with AutoImageProcessor"):
        HubImageEncoder(folders / "bert")
    with pytest.raises(InputError, match="Cannot load .*vit' with AutoTokenizer"):
        HubTextEncoder(folders / "vit")


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install 'corrhash\[transformers\]'"):
        HubImageEncoder("hf:anything")

"""Tiny ONNX encoders in the layouts of real exports."""

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "boat", "tree", "sky", "two", "sea"]
SIDE = 8
WIDTH = 6


def save_network(path, inputs, outputs, nodes, constants):
    """Write a graph; ``inputs`` and ``outputs`` are (name, type, shape)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def image_weights(seed=0):
    return np.random.default_rng(seed).normal(size=(3 * SIDE * SIDE, WIDTH)).astype(np.float32)


def save_image_network(path, output="image_embeds", name="pixel_values", seed=0):
    """A linear map of the pixels, (n, WIDTH)."""
    save_network(
        path,
        [(name, TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [(output, TensorProto.FLOAT, ["batch", WIDTH])],
        [
            helper.make_node("Flatten", [name], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["inner"]),
            helper.make_node("Identity", ["inner"], [output]),
        ],
        {"weights": image_weights(seed)},
    )


def token_table(seed=1):
    return np.random.default_rng(seed).normal(size=(len(WORDS), WIDTH)).astype(np.float32)


def save_text_network(path, pooled=False, length="length", name="input_ids", integer="INT64"):
    """A vector per token, (n, length, WIDTH); their mean, (n, WIDTH), if ``pooled``."""
    kind = getattr(TensorProto, integer)
    output = "text_embeds" if pooled else "last_hidden_state"
    nodes = [helper.make_node("Gather", ["table", name], ["found" if pooled else output])]
    if pooled:
        nodes.append(helper.make_node("ReduceMean", ["found"], [output], axes=[1], keepdims=0))
    shape = ["batch", WIDTH] if pooled else ["batch", length, WIDTH]
    save_network(
        path,
        [(name, kind, ["batch", length])],
        [(output, TensorProto.FLOAT, shape)],
        nodes,
        {"table": token_table()},
    )


def save_tokenizer(path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=9)  # as sentence encoders ship it
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


PREPROCESSOR = {
    "size": {"shortest_edge": 10},
    "do_center_crop": True,
    "crop_size": {"height": SIDE, "width": SIDE},
    "resample": 3,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.25, 0.25, 0.25],
}


def save_clip(folder):
    """Two towers as Optimum and Transformers.js export CLIP."""
    save_image_network(folder / "onnx" / "vision_model.onnx")
    save_text_network(folder / "onnx" / "text_model.onnx", pooled=True)
    save_tokenizer(folder / "tokenizer.json")
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    config = {"model_type": "clip", "text_config": {"max_position_embeddings": 7}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def save_sentence_encoder(folder):
    """A sentence encoder as Transformers.js exports it."""
    save_text_network(folder / "onnx" / "model.onnx")
    save_tokenizer(folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 12}))
    return folder


def save_image_encoder(folder):
    """An image encoder without preprocessing files, described by encoder.json."""
    save_image_network(folder / "net.onnx", output="features", name="input")
    image = {"file": "net.onnx", "resize": 8, "crop": 8, "keep_aspect": False}
    (folder / "encoder.json").write_text(json.dumps({"image": image}))
    return folder

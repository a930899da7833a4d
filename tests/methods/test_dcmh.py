"""DCMH: the gradients and codes of the paper, checkpoints and quality."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash._progress import listening
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.experiments.options import new_hasher
from corrhash.methods.dcmh import DCMH
from corrhash.metrics import evaluate
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.batches import Rows
from corrhash.training.config import Training

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=4, learning_rate=3e-3, validate_every=2),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


@pytest.fixture
def trainer(pairs):
    """A trainer before its first epoch."""
    hasher = DCMH(8, quantization_weight=0.7, balance_weight=0.2, **QUICK)
    hasher._build({"image": 256, "text": 400})
    return hasher._trainer(pairs.take(slice(0, 60)), pairs.take(slice(60, 90)))


def sgn(values):
    return np.where(values > 0, 1.0, -1.0)


def gradient_of_paper(own, other, codes, similar, rows, quantization_weight, balance_weight):
    """(batch, b) derivative of J with respect to rows of F, or of G with modalities swapped."""
    gradient = np.zeros((len(rows), own.shape[1]))
    for k, i in enumerate(rows):
        for j in range(len(other)):
            theta = own[i] @ other[j] / 2
            gradient[k] += 0.5 * (1 / (1 + np.exp(-theta)) - similar[i, j]) * other[j]
        gradient[k] += 2 * quantization_weight * (own[i] - codes[i]) + 2 * balance_weight * own.sum(
            axis=0
        )
    return gradient


@pytest.mark.parametrize("modality", ["image", "text"])
def test_step_has_the_gradient_of_the_paper(trainer, monkeypatch, modality):
    """Divided by the number of pairs; the other modality and the codes are fixed."""
    rows = np.array([3, 17, 40, 41])
    live = torch.randn(4, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    monkeypatch.setattr(trainer, "_continuous_codes", lambda *asked: live)
    monkeypatch.setattr(trainer, "_optimize", lambda loss, logged: loss.backward())
    getattr(trainer, f"_{modality}_step")(Rows(rows, rows), 0)
    memory = {name: value.double().numpy() for name, value in trainer.memory.items()}
    other = memory["text" if modality == "image" else "image"]
    np.testing.assert_allclose(memory[modality][rows], live.detach().numpy())  # F_I is overwritten
    similar = trainer.similarity.block() > 0
    expected = gradient_of_paper(memory[modality], other, memory["codes"], similar, rows, 0.7, 0.2)
    np.testing.assert_allclose(live.grad.numpy(), expected / (60 * 4), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("modality", "other"), [("image", "text"), ("text", "image")])
def test_step_changes_one_network_only(trainer, modality, other):
    before = {name: value.clone() for name, value in trainer.networks.state_dict().items()}
    rows = np.arange(10)
    trainer._set_learning_rate(10, 20)
    getattr(trainer, f"_{modality}_step")(Rows(rows, rows), 0)
    after = trainer.networks.state_dict()
    changed = {name.split(".")[0] for name in after if not torch.equal(after[name], before[name])}
    assert changed == {modality}


def test_epoch_updates_all_items_and_the_codes(trainer):
    before = {name: value.clone() for name, value in trainer.memory.items()}
    trainer._epoch(0)
    f, g = trainer.memory["image"], trainer.memory["text"]
    for name in ("image", "text"):
        assert (trainer.memory[name] != before[name]).any(dim=1).all()
    np.testing.assert_array_equal(trainer.memory["codes"], sgn((f + g).numpy()))  # B = sgn(F + G)
    assert not torch.equal(trainer.memory["codes"], before["codes"])


def test_sign_of_zero_is_minus_one(trainer):
    trainer.memory["image"] = torch.tensor([[0.5, 1.0, -2.0]])
    trainer.memory["text"] = torch.tensor([[-0.5, 1.0, 1.0]])
    trainer._after_epoch()
    assert trainer.memory["codes"].tolist() == [[-1, 1, -1]]


def test_hash_layers_are_linear(pairs):
    hasher = DCMH(16, **QUICK).fit(pairs)
    assert np.abs(hasher.embed_image(pairs.images)).max() > 1
    network = hasher.text_network_.eval()
    values = torch.from_numpy(pairs.texts[:64].toarray())
    expected = network.hash.fch(network.body(values)).detach().numpy()
    np.testing.assert_allclose(hasher.embed_text(pairs.texts[:64]), expected, atol=1e-5)


def test_interrupted_training_resumes_with_the_same_codes(pairs, tmp_path):
    training = replace(QUICK["training"], checkpoint=str(tmp_path))
    kept = DCMH(
        16,
        quantization_weight=10,
        balance_weight=0.01,
        networks=QUICK["networks"],
        training=training,
    )
    whole = DCMH(16, quantization_weight=10, balance_weight=0.01, **QUICK).fit(pairs)

    def interrupt(step):
        if step.task == "Training" and step.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        kept.fit(pairs)
    again = kept.fit(pairs)
    assert [entry["loss"] for entry in again.history_] == [e["loss"] for e in whole.history_]
    for modality in ("image", "text"):
        values = getattr(pairs, f"{modality}s")
        first, second = (getattr(h, f"embed_{modality}")(values) for h in (whole, again))
        np.testing.assert_array_equal(first, second)


def test_from_paper_has_the_published_settings():
    hasher = DCMH.from_paper(16, epochs=5)
    assert (hasher.quantization_weight, hasher.balance_weight) == (1, 1)
    training = hasher.training
    assert (training.optimizer, training.momentum, training.batch_size) == ("sgd", 0, 128)
    assert training.learning_rate == pytest.approx(0.0316, abs=1e-4)
    assert (training.weight_decay, training.schedule, training.epochs) == (5e-4, "linear", 5)
    assert DCMH.from_paper().training.epochs == 500


def test_paper_settings_train_from_the_command_line(pairs):
    few = {"training.epochs": 2, "networks.width": 256}
    hasher = new_hasher(DCMH, 16, few, paper_settings=True).fit(pairs)
    assert len(hasher.history_) == 2
    assert hasher.history_[1]["loss"] < hasher.history_[0]["loss"]


def test_learns_from_pixels():
    """Red and blue images with matching tags."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 120)
    images = rng.integers(0, 60, (120, 40, 40, 3), dtype=np.uint8)
    images[np.arange(120), :, :, classes * 2] += 150
    labels = np.eye(2, dtype=int)[classes]
    pairs = PairedDataset(images, labels.astype(np.float32), labels)
    training = Training(epochs=8, learning_rate=3e-3, validate_every=8)
    hasher = DCMH(8, networks=Networks(width=64), training=training).fit(pairs)
    scores = evaluate(hasher.encode_image(images), hasher.encode_text(pairs.texts), labels, labels)
    assert scores.map > 0.9


@pytest.fixture(scope="module")
def unseen():
    return make_pairs(1600, seed=3)


def above_chance(unseen, n_bits, labels=None):
    """mAP of both directions minus chance, after training on 1,000 pairs."""
    train, rest = unseen.take(slice(0, 1000)), unseen.take(slice(1000, None))
    training = Training(epochs=10, learning_rate=2e-3, validate_every=10)
    hasher = DCMH(n_bits, networks=Networks(width=128), training=training)
    hasher.fit(train if labels is None else replace(train, labels=labels))
    images, texts = hasher.encode_image(rest.images), hasher.encode_text(rest.texts)
    chance = Similarity.from_labels(rest.labels).share_similar
    maps = [
        evaluate(*codes, rest.labels, rest.labels).map
        for codes in ((images, texts), (texts, images))
    ]
    return np.array(maps) - chance


def test_map_increases_with_code_length(unseen):
    short, long = above_chance(unseen, 16), above_chance(unseen, 64)
    assert (short > 0.03).all()
    assert long.mean() > short.mean()


def test_shuffled_labels_give_chance_level(unseen):
    shuffled = unseen.labels[np.random.default_rng(0).permutation(1000)]
    assert (np.abs(above_chance(unseen, 16, shuffled)) < 0.05).all()

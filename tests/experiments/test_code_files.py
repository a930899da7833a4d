"""Codes of other programs: names and kinds of arrays, labels, judgments, and datasets."""

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from corrhash import Codes, InputError, evaluate, load_dataset, save_codes
from corrhash.experiments.code_files import read_codes_of_dataset, read_queries_and_database
from corrhash.similarity import Similarity

N_QUERY, N_DATABASE, N_BITS = 30, 80, 12


@pytest.fixture(scope="module")
def arrays():
    """Continuous codes of both parts and modalities, and labels."""
    rng = np.random.default_rng(0)
    sizes = {"query": N_QUERY, "database": N_DATABASE}
    found = {f"{part}_labels": rng.integers(0, 2, (n, 4)) for part, n in sizes.items()}
    centres = rng.normal(size=(4, N_BITS))
    for part, n in sizes.items():
        for modality in ("image", "text"):
            noise = rng.normal(size=(n, N_BITS))
            found[f"{part}_{modality}"] = found[f"{part}_labels"] @ centres + noise
    return found


def codes_only(arrays):
    return {name: array for name, array in arrays.items() if not name.endswith("labels")}


def labels_only(arrays):
    return {name: array for name, array in arrays.items() if name.endswith("labels")}


def expected_maps(arrays, **options):
    codes = {name: Codes.from_continuous(array) for name, array in codes_only(arrays).items()}
    labels = arrays["query_labels"], arrays["database_labels"]
    return {
        "image->text": evaluate(
            codes["query_image"], codes["database_text"], *labels, **options
        ).map,
        "text->image": evaluate(
            codes["query_text"], codes["database_image"], *labels, **options
        ).map,
    }


def maps(codes, **options):
    return {direction: scores.map for direction, scores in codes.scores(**options).items()}


KINDS = {
    "real numbers": lambda values: values,
    "-1 and 1": np.sign,
    "0 and 1": lambda values: (values > 0).astype(np.uint8),
    "booleans": lambda values: values > 0,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("definition", ["all", "hashnet@5"])
def test_all_kinds_of_codes_score_alike(arrays, tmp_path, kind, definition):
    made = {name: KINDS[kind](array) for name, array in codes_only(arrays).items()}
    np.savez(tmp_path / "codes.npz", **made, **labels_only(arrays))
    found = maps(read_queries_and_database(tmp_path / "codes.npz"), definition=definition)
    assert found == expected_maps(arrays, definition=definition)


def test_packed_codes(arrays, tmp_path):
    path = tmp_path / "codes.npz"
    packed = {n: Codes.from_continuous(a).packed for n, a in codes_only(arrays).items()}
    np.savez(path, **packed, **labels_only(arrays), n_bits=N_BITS)
    assert maps(read_queries_and_database(path)) == expected_maps(arrays)
    prefixed = {f"packed_{name}": array for name, array in packed.items()}
    np.savez(path, **prefixed, **labels_only(arrays), n_bits=N_BITS)
    assert maps(read_queries_and_database(path)) == expected_maps(arrays)


@pytest.mark.parametrize(
    "names",
    [
        ("q_img", "q_txt", "r_img", "r_txt", "q_l", "r_l"),
        ("Qi", "Qt", "Di", "Dt", "query_L", "retrieval_L"),
    ],
)
def test_files_of_public_programs(arrays, tmp_path, names):
    ours = ("query_image", "query_text", "database_image", "database_text")
    ours += ("query_labels", "database_labels")
    theirs = {name: arrays[our] for name, our in zip(names, ours, strict=True)}
    theirs |= {name: np.sign(theirs[name]) for name in names[:4]}
    savemat(tmp_path / "64-ours-flickr25k-i2t.mat", theirs)
    found = maps(read_queries_and_database(tmp_path / "64-ours-flickr25k-i2t.mat"))
    assert found == expected_maps(arrays)


def test_class_numbers_are_labels(arrays, tmp_path):
    numbers = {n: labels[:, 0] + 2 * labels[:, 1] for n, labels in labels_only(arrays).items()}
    np.savez(tmp_path / "codes.npz", **codes_only(arrays), **numbers)
    one_hot = {name: np.eye(4, dtype=int)[of] for name, of in numbers.items()}
    found = maps(read_queries_and_database(tmp_path / "codes.npz"))
    assert found == expected_maps(arrays | one_hot)


def test_one_direction_alone(arrays, tmp_path):
    one = {name: arrays[name] for name in ("query_text", "database_image")}
    np.savez(tmp_path / "codes.npz", **one, **labels_only(arrays))
    found = maps(read_queries_and_database(tmp_path / "codes.npz"))
    assert found == {"text->image": expected_maps(arrays)["text->image"]}


def test_arrays_of_unknown_names_are_listed(arrays, tmp_path):
    named = {"q_img": "query_image", "r_text": "database_text", "r_txt": "database_text"}
    made = {name: arrays[our] for name, our in named.items()} | labels_only(arrays)
    savemat(tmp_path / "codes.mat", made)
    assert read_queries_and_database(tmp_path / "codes.mat").ignored == ("r_text",)


def test_messages_list_the_names_in_the_file(arrays, tmp_path):
    savemat(tmp_path / "codes.mat", {"q_image": arrays["query_image"], "q_l": np.eye(30)})
    with pytest.raises(InputError, match="it contains: q_image, q_l"):
        read_queries_and_database(tmp_path / "codes.mat")


def test_a_file_without_arrays_is_refused(tmp_path):
    (tmp_path / "codes.npz").write_text("image text\n")
    with pytest.raises(InputError, match="it has no arrays, or pickled objects, which are never"):
        read_queries_and_database(tmp_path / "codes.npz")


def test_relevance_judgments(arrays, tmp_path):
    judged = [(i, j, 1 if (i + j) % 3 else -1) for i in range(N_QUERY) for j in range(0, 80, 7)]
    np.savez(tmp_path / "codes.npz", **codes_only(arrays), judgments=judged)
    found = maps(read_queries_and_database(tmp_path / "codes.npz"))
    expected = evaluate(
        Codes.from_continuous(arrays["query_image"]),
        Codes.from_continuous(arrays["database_text"]),
        similarity=Similarity.from_judgments(judged, (N_QUERY, N_DATABASE)),
    )
    assert found["image->text"] == expected.map


def test_pairs_without_labels(arrays, tmp_path):
    paired = {name: array[:N_QUERY] for name, array in codes_only(arrays).items()}
    np.savez(tmp_path / "codes.npz", **paired)
    scores = read_queries_and_database(tmp_path / "codes.npz").scores()
    assert set(scores["image->text"].recall_at) == {1, 5, 10}


def test_sparse_codes(arrays, tmp_path):
    signs = {name: np.sign(array) for name, array in codes_only(arrays).items()}
    bits = {name: csc_matrix(array > 0, dtype=float) for name, array in signs.items()}
    savemat(tmp_path / "codes.mat", bits | labels_only(arrays))
    assert maps(read_queries_and_database(tmp_path / "codes.mat")) == expected_maps(arrays)


def test_cosine_ranking_of_positive_embeddings(arrays, tmp_path):
    positive = {name: np.exp(array) for name, array in codes_only(arrays).items()}
    np.savez(tmp_path / "codes.npz", **positive, **labels_only(arrays))
    found = read_queries_and_database(tmp_path / "codes.npz", cosine=True).scores()
    labels = arrays["query_labels"], arrays["database_labels"]
    expected = evaluate(positive["query_image"], positive["database_text"], *labels)
    assert found["image->text"].map == expected.map


def test_cosine_ranking(arrays, tmp_path):
    np.savez(tmp_path / "codes.npz", **arrays)
    found = read_queries_and_database(tmp_path / "codes.npz", cosine=True).scores()
    labels = arrays["query_labels"], arrays["database_labels"]
    expected = evaluate(arrays["query_image"], arrays["database_text"], *labels)
    assert found["image->text"].map == expected.map
    assert found["image->text"].ranked_by == "cosine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_image": None, "query_text": None}, "needs the arrays query_image and database"),
        (
            {"query_labels": None, "database_labels": None},
            "30 queries are not paired with its 80 database items",
        ),
        ({"query_labels": None}, "has database_labels but not query_labels. Save both"),
        (
            {"query_image": np.full((30, 12), 0.7)},
            "no negative value but others than 0 and 1, .* 0.7",
        ),
        ({"query_image": np.full((30, 12), np.nan)}, "must be finite"),
        (
            {"query_image": np.ones(30)},
            r"must be an \(n, n_bits\) array of numbers, got shape \(30,",
        ),
        ({"query_image": np.full((30, 12), "x")}, "array of numbers, .* dtype <U1"),
        (
            {"query_text": np.ones((30, 8))},
            r"query_text has the shape \(30, 8\), and query_image \(30, 12\)",
        ),
        (
            {"database_text": np.ones((12, 80))},
            r"as many rows as database_image; transpose it if its rows are not the items",
        ),
        (
            {"query_labels": np.ones((29, 4))},
            r"query_labels has the shape \(29, 4\), and query_image \(30, 12\)",
        ),
        (
            {"database_labels": np.ones((80, 5))},
            r"must be \(n, n_classes\) with as many columns as query_labels",
        ),
    ],
)
def test_incomplete_files_are_refused(arrays, tmp_path, change, message):
    made = {name: array for name, array in (arrays | change).items() if array is not None}
    np.savez(tmp_path / "codes.npz", **made)
    with pytest.raises(InputError, match=message):
        read_queries_and_database(tmp_path / "codes.npz").scores()


@pytest.fixture(scope="module")
def split():
    return load_dataset("synthetic", n=780)


@pytest.fixture(scope="module")
def outputs(split):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(split.pairs.labels.shape[1], 16))
    signal = split.pairs.labels @ centres
    return {modality: signal + rng.normal(size=signal.shape) for modality in ("image", "text")}


def expected_on(split, outputs):
    query, database = split.query, split.database
    rows = split.query_rows, split.database_rows
    return evaluate(
        Codes.from_continuous(outputs["image"][rows[0]]),
        Codes.from_continuous(outputs["text"][rows[1]]),
        query.labels,
        database.labels,
    ).map


def test_rows_of_a_dataset(split, outputs, tmp_path):
    np.savez(tmp_path / "codes.npz", **outputs)
    found = maps(read_codes_of_dataset([tmp_path / "codes.npz"], split))
    assert found["image->text"] == expected_on(split, outputs)


def test_keys_of_items_in_several_files(split, outputs, tmp_path):
    order = np.random.default_rng(2).permutation(len(split.pairs))
    keys = np.array(split.pairs.row_keys())
    files = []
    for number, rows in enumerate(np.array_split(order, 2)):
        codes = {m: Codes.from_continuous(values[rows]) for m, values in outputs.items()}
        files.append(tmp_path / f"{number}.npz")
        save_codes(files[-1], codes, keys[rows])
    found = maps(read_codes_of_dataset(files, split))
    assert found["image->text"] == expected_on(split, outputs)
    with pytest.raises(InputError, match=r"The codes of \d+ of \d+ query items are missing"):
        read_codes_of_dataset(files[:1], split)


def test_rows_that_are_no_items_are_refused(split, outputs, tmp_path):
    np.savez(tmp_path / "codes.npz", image=outputs["image"][1:], text=outputs["text"][1:])
    with pytest.raises(InputError, match="has 779 codes of images for 780 items"):
        read_codes_of_dataset([tmp_path / "codes.npz"], split)
    np.savez(tmp_path / "codes.npz", other=outputs["image"])
    with pytest.raises(InputError, match="needs the arrays image and text; it contains: other"):
        read_codes_of_dataset([tmp_path / "codes.npz"], split)
    np.savez(tmp_path / "codes.npz", image=outputs["image"])
    with pytest.raises(InputError, match="Save the codes of both modalities"):
        read_codes_of_dataset([tmp_path / "codes.npz"], split)


def test_files_of_different_code_lengths_are_refused(split, outputs, tmp_path):
    for width in (8, 16):
        np.savez(tmp_path / f"{width}.npz", **{m: of[:, :width] for m, of in outputs.items()})
    with pytest.raises(InputError, match="must have the same length, got 8, 16 bits"):
        read_codes_of_dataset([tmp_path / "8.npz", tmp_path / "16.npz"], split)

"""Learn codes, measure them, and search them with words: both directions in a few lines."""

from corrhash.datasets import load_dataset
from corrhash.index import open_index
from corrhash.methods import METHODS
from corrhash.metrics import evaluate

split = load_dataset("scenes", n=1200, image_features="simple")
hasher = METHODS["cvh"](n_bits=32).fit(split.train, split.validation)

queries = hasher.encode_text(split.query.texts)
pictures = hasher.encode_image(split.database.images)
scores = evaluate(queries, pictures, split.query.labels, split.database.labels)
print(f"MAP text->image: {scores.map:.3f}")

index = open_index("memory:", n_bits=32)
index.add(range(len(pictures)), pictures)
words = ["boat sea"]
nearest = index.search(hasher.encode_text(split.reader.read_texts(words)), k=5)
print(f"{words[0]}:")
for row, distance in zip(nearest.rows[0], nearest.distances[0], strict=True):
    print(f"  {distance:2d} bits away: {split.database.items[row]['caption']}")

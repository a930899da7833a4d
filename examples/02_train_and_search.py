"""Train a hashing method, evaluate text-to-image retrieval, and search images with a text query."""

from corrhash import SCM, evaluate, load_dataset, open_index

split = load_dataset("scenes", n=600, image_features="simple")
hasher = SCM(n_bits=32).fit(split.train)

queries = hasher.encode_text(split.query.texts)
database = hasher.encode_image(split.database.images)
scores = evaluate(queries, database, split.query.labels, split.database.labels)
print(f"mAP, text to image: {scores.map:.3f}")

index = open_index("memory:", n_bits=32)
index.add(range(len(database)), database)
query = "boat sea"
nearest = index.search(hasher.encode_text(split.reader.read_texts([query])), k=5)
print(f"Results for {query!r}:")
for row, distance in zip(nearest.rows[0], nearest.distances[0], strict=True):
    print(f"  Hamming distance {distance:2d}: {split.database.items[row]['caption']}")

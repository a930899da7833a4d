"""Store images with metadata in a collection on disk, and search it by text, image and filter."""

from corrhash import SCM, Collection, Model, Record, load_dataset
from corrhash.datasets.scenes.dataset import draw_scenes

split = load_dataset("scenes", n=600, image_features="simple")
model = Model(SCM(n_bits=64).fit(split.train), split.reader)

scenes = draw_scenes(200, seed=1)
collection = Collection.create("my_collection", model)
collection.add(
    Record(f"scene-{i:03}", image, caption, metadata={"year": 2000 + i % 25})
    for i, (image, caption) in enumerate(zip(scenes.images, scenes.captions, strict=True))
)
print(collection)

for match in Collection.open("my_collection").search("boat sea", where="year >= 2015", k=3):
    print(f"{match.key}  distance {match.distance}  {match.item.text}")

print("Similar to the first image:")
for match in collection.search(image=scenes.images[0], find="text", k=3):
    print(f"{match.key}  distance {match.distance}  {match.item.text}")

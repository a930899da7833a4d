"""Published datasets in miniature, laid out and encoded as their authors distribute them."""

import json

import numpy as np
from PIL import Image

from corrhash.datasets.published.mirflickr25k import CONCEPTS, STRICT

SMALL = {"n_query": 6, "n_validation": 5, "n_train": 20}
PER_CLASS = {"n_query": 2, "n_validation": 1, "n_train": 3}


def draw(path, number, size=(24, 20), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(number)
    pixels = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)


def mirflickr(root, n=60, with_images=True):
    """``mirflickr/`` of one archive and ``mirflickr25k_annotations_v080/`` of the other.

    Every seventh image has no tag but a rare one, every eleventh no concept.
    """
    home, annotations = root / "mirflickr", root / "mirflickr25k_annotations_v080"
    for folder in (home / "meta" / "tags", home / "doc", annotations):
        folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    frequent = ["explore", "café", "nikon", "été", "sea", "c++"]
    for number in range(1, n + 1):
        few = number % 7 == 0
        tags = [f"rare{number}"] if few else [f"rare{number}", *rng.choice(frequent, 3)]
        # Lines end as in Windows, and the last has an end too.
        content = "".join(f"{tag}\r\n" for tag in dict.fromkeys(tags))
        (home / "meta" / "tags" / f"tags{number}.txt").write_bytes(content.encode())
        if with_images:
            draw(home / f"im{number}.jpg", number)
    lines = "".join(f"{tag} {40 + i}\r\n" for i, tag in enumerate(frequent))
    (home / "doc" / "common_tags.txt").write_bytes(lines.encode())
    for concept in (*CONCEPTS, *STRICT):
        column = CONCEPTS.index(concept.removesuffix("_r1"))
        listed = [k for k in range(1, n + 1) if k % 24 == column and k % 11]
        listed = listed[::2] if concept.endswith("_r1") else listed
        (annotations / f"{concept}.txt").write_text("".join(f"{k}\r\n" for k in listed))
    (annotations / "README.txt").write_text("MIRFLICKR25K annotations\n")
    return root


CONCEPTS81 = [f"concept{i:02}" for i in range(81)]


def nuswide(root, n=400, table=True, with_images=True):
    """``ImageList``, ``ConceptsList``, ``Groundtruth`` and ``NUS_WID_Tags``, each of an archive."""
    for folder in ("ImageList", "ConceptsList", "Groundtruth/AllLabels", "NUS_WID_Tags"):
        (root / folder).mkdir(parents=True)
    names = [f"actor\\{i:04}_{5000 + i}.jpg" for i in range(n)]
    (root / "ImageList" / "Imagelist.txt").write_text("".join(f"{x}\r\n" for x in names))
    lines = "".join(f"{name}\r\n" for name in CONCEPTS81)
    (root / "ConceptsList" / "Concepts81.txt").write_text(lines)
    rng = np.random.default_rng(0)
    for i, concept in enumerate(CONCEPTS81):
        # The first 21 are frequent; the last tenth of the images carries none of these.
        share = 0.2 + i / 100 if i < 21 else 0.02
        carried = rng.random(n) < share
        carried[-n // 10 :] &= i >= 21
        lines = "".join(f"{int(flag)}\n" for flag in carried)
        (root / "Groundtruth" / "AllLabels" / f"Labels_{concept}.txt").write_text(lines)
    words = [f"tag{i}" for i in range(1000)]
    (root / "NUS_WID_Tags" / "TagList1k.txt").write_text("".join(f"{w}\r\n" for w in words))
    tags = rng.random((n, 1000)) < 0.004
    if table:
        rows = ("\t".join("01"[flag] for flag in row) + "\t\r\n" for row in tags.astype(int))
        (root / "NUS_WID_Tags" / "AllTags1k.txt").write_text("".join(rows))
    lines = (
        f"{5000 + i}      {' '.join(words[k] for k in np.flatnonzero(tags[i]))} unlisted \r\n"
        for i in range(n)
    )
    (root / "NUS_WID_Tags" / "All_Tags.txt").write_text("".join(lines))
    if with_images:
        for i in range(n):
            if i % 9:  # a dead link
                draw(root / "Flickr" / "actor" / f"{i:04}_{5000 + i}.jpg", i, (8, 8))
    return root


CATEGORIES = [
    {"id": 1 + i + i // 11, "name": f"thing {i}", "supercategory": "s"} for i in range(80)
]


def coco(root, n=60, year=2017, with_images=True):
    """``annotations/`` with captions and instances, and the images of both parts."""
    (root / "annotations").mkdir(parents=True)
    for part, numbers in (("train", range(n)), ("val", range(n, n + n // 5))):
        name = "COCO_{}2014_{:012}.jpg".format if year == 2014 else "{1:012}.jpg".format
        images = [
            {"id": 7 * k, "file_name": name(part, 7 * k), "height": 20, "width": 24, "license": 1}
            for k in numbers
        ]
        # Captions of a image do not stand together, as in the files of COCO.
        captions = [
            {"image_id": 7 * k, "id": 100 * k + c, "caption": f"A thing number {k},\n caption {c}."}
            for c in (3, 0, 1, 2, 4)
            for k in numbers
        ]
        things = [
            {
                "id": 50 * k + t,
                "image_id": 7 * k,
                "category_id": CATEGORIES[(k + 13 * t) % 80]["id"],
                "iscrowd": t,
                "bbox": [1.0, 2.0, 3.5, 4.0],
                "area": 9.5,
                "segmentation": {"counts": [3, 5], "size": [20, 24]} if t else [[1.0, 2.0, 3.0]],
            }
            for k in numbers
            for t in (0, 1)
            if k % 10  # every tenth image shows no thing
        ]
        common = {"info": {"year": year}, "licenses": [{"id": 1, "name": "CC", "url": ""}]}
        contents = {
            "captions": {**common, "images": images, "annotations": captions},
            "instances": {
                **common,
                "images": images,
                "annotations": things,
                "categories": CATEGORIES,
            },
        }
        for kind, content in contents.items():
            path = root / "annotations" / f"{kind}_{part}{year}.json"
            path.write_text(json.dumps(content))
        for image in images if with_images else ():
            draw(root / f"{part}{year}" / image["file_name"], image["id"])
    return root


LAYOUTS = {
    "mirflickr25k": (mirflickr, SMALL),
    "mirflickr25k-24": (mirflickr, SMALL),
    "nuswide": (nuswide, PER_CLASS),
    "coco": (coco, SMALL),
}
"""How to lay out each dataset, and the sizes of its parts in miniature."""

"""A folder of pictures with captions beside them, in them, or in their names."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from pathlib import Path

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.embedded_words import EmbeddedWords, embedded_words
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.label_names import label_table
from corrhash.datasets.splits import draw_own
from corrhash.datasets.text_files import read_lines
from corrhash.errors import InputError
from corrhash.progress import report

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".jp2", ".avif")
CAPTIONS = ("auto", "beside", "inside", "names")
LABELS = ("none", "folders", "keywords")

# What cameras and phones call every picture tells nothing of it.
_CAMERA = re.compile(r"img|dsc[nf]?|dcim|pict?|mvimg|pxl|image|photo|screenshot|wa|p|vid", re.I)
REPORT_EVERY = 200


def load(
    path: str | Path,
    seed: int = 0,
    *,
    captions: str = "auto",
    labels: str = "none",
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """The pictures in a folder and in those below it.

    Parameters
    ----------
    path : the folder.
    seed : of the split.
    captions : ``beside`` a picture in a ``.txt`` file of the same name; ``inside`` it, as IPTC, XMP
        or EXIF; in ``names`` of files; or ``auto``, for each picture the first that it has.
    labels : ``none``; ``folders``, where the folders that a picture is in name what it shows; or
        ``keywords``, those inside the pictures.
    n_query, n_validation, n_train : sizes of the split.
    """
    path = Path(path)
    for value, known in ((captions, CAPTIONS), (labels, LABELS)):
        if value not in known:
            raise InputError(f"There is no choice {value!r} here. Use one of: {', '.join(known)}.")
    files = picture_files(path)
    if not files:
        raise InputError(
            f"There is no picture in {path} ({', '.join(SUFFIXES)}). Check the folder."
        )
    inside = _all_embedded(files) if {captions, labels} & {"auto", "inside", "keywords"} else {}
    names = [file.relative_to(path) for file in files]
    found = {"none": [], "folders": [name.parts[:-1] for name in names]}
    named = found.get(labels) or [inside[file].keywords for file in files if inside]
    label_names, table = label_table(named) if labels != "none" else ([], None)
    pairs = PairedDataset(
        images=ImageFiles(files),
        texts=[_text(file, captions, inside) for file in files],
        labels=table,
        keys=[unicodedata.normalize("NFC", name.as_posix()) for name in names],
        label_names=label_names,
    )
    if not any(pairs.texts):
        raise InputError(
            f"None of the {len(files):,} pictures in {path} has words. Write a caption beside each "
            "(boat.txt for boat.jpg), give keywords to the pictures, or write a manifest."
        )
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    return replace(draw_own(pairs, seed, sizes), name=path.resolve().name)


def picture_files(folder: Path) -> list[Path]:
    """The pictures in a folder and below, in the order of their names; hidden ones are left out."""
    files = (
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
    )
    return sorted(files, key=lambda file: file.relative_to(folder).as_posix())


def read_captions(files: list[Path]) -> list[str]:
    """What is said of each picture: beside it, inside it, or in its name."""
    inside = _all_embedded(files)
    return [_text(file, "auto", inside) for file in files]


def _all_embedded(files: list[Path]) -> dict[Path, EmbeddedWords]:
    inside = {}
    for done, file in enumerate(files, 1):
        inside[file] = embedded_words(file)
        if done % REPORT_EVERY == 0 or done == len(files):
            report("Reading keywords", done, len(files))
    return inside


def _text(file: Path, captions: str, inside: dict[Path, EmbeddedWords]) -> str:
    """What is said of a picture; nothing if nothing is."""
    if captions in ("auto", "beside"):
        beside = file.with_suffix(".txt")
        text = " ".join(read_lines(beside)).strip() if beside.is_file() else ""
        if text or captions == "beside":
            return text
    if captions in ("auto", "inside"):
        text = inside[file].text
        if text or captions == "inside":
            return text
    return words_in_name(file.stem)


def words_in_name(stem: str) -> str:
    """The words in the name of a file, without numbers and what cameras write.

    >>> words_in_name("IMG_2041_red-boat at sea (2)")
    'red boat at sea'
    """
    words = re.findall(r"[^\W\d_]+", stem)
    return " ".join(word for word in words if not _CAMERA.fullmatch(word))

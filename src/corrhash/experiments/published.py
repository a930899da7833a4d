"""The numbers that the paper of CHN prints, for rank and trend: it does not say how MAP was read.

Yue Cao, Mingsheng Long, Jianmin Wang and Philip S. Yu. Correlation hashing network for efficient
cross-modal retrieval. BMVC 2017, tables 1 and 2.
"""

from __future__ import annotations

LENGTHS = (16, 32, 64, 128)

_MAPS = {
    "nuswide": {
        "image->text": """
            cvh .4454 .4342 .4290 .4479
            imh .5256 .6358 .6151 .6183
            cmssh .4665 .4809 .5670 .5288
            rahh .6047 .6312 .6354 .6534
            scm .6871 .7271 .7600 .7739
            seph .5982 .5910 .5988 .6239
            mmnn .6255 .6424 .6514 .6713
            dcmh .7353 .7628 .7805 .7912
            chn-m .6987 .7251 .7350 .7593
            chn-i .6751 .7047 .7214 .7253
            chn-q .7743 .7982 .8212 .8598
            chn .7995 .8146 .8353 .8662
            chn-b .8650 .8706 .8746 .8879""",
        "text->image": """
            cvh .4357 .4253 .4186 .4184
            imh .6253 .6816 .7094 .6532
            cmssh .4166 .5110 .4343 .4974
            rahh .5786 .6158 .6214 .6240
            scm .6794 .7194 .7480 .7466
            seph .6044 .6036 .6256 .6405
            mmnn .6083 .6226 .6435 .6648
            dcmh .6898 .7102 .7358 .7557
            chn-m .5789 .5924 .5997 .6318
            chn-i .5874 .6012 .6241 .6534
            chn-q .7395 .7543 .7779 .8053
            chn .7533 .7803 .7888 .8288
            chn-b .8003 .8095 .8185 .8407""",
    },
    "mirflickr25k": {
        "image->text": """
            cvh .6883 .7092 .6976 .6334
            imh .6765 .6989 .6964 .6839
            cmssh .5122 .5404 .5842 .5740
            rahh .6899 .7086 .7155 .7204
            scm .6953 .7091 .7070 .7497
            seph .7526 .7604 .7607 .7651
            mmnn .6915 .7185 .7277 .7352
            dcmh .7576 .7985 .8152 .8369
            chn-m .7313 .7665 .8148 .8281
            chn-i .7105 .7481 .7798 .7843
            chn-q .7893 .8214 .8558 .8678
            chn .8223 .8477 .8777 .8808
            chn-b .8753 .8612 .8905 .8933""",
        "text->image": """
            cvh .6065 .6277 .6063 .6004
            imh .6229 .6201 .6239 .6237
            cmssh .4656 .4624 .4769 .5337
            rahh .6248 .6321 .6359 .6464
            scm .6173 .6115 .6177 .6564
            seph .6470 .6429 .6517 .6550
            mmnn .6815 .6992 .7082 .7171
            dcmh .7013 .7288 .7458 .7698
            chn-m .6532 .6875 .7015 .7135
            chn-i .6817 .6987 .7314 .7389
            chn-q .7515 .7687 .8043 .8125
            chn .7749 .7891 .8169 .8258
            chn-b .7915 .8142 .8207 .8308""",
    },
}


def _read(text: str) -> dict[str, dict[int, float]]:
    lines = [line.split() for line in text.strip().splitlines()]
    return {name: dict(zip(LENGTHS, map(float, maps), strict=True)) for name, *maps in lines}


PUBLISHED = {
    dataset: {direction: _read(text) for direction, text in directions.items()}
    for dataset, directions in _MAPS.items()
}
"""Dataset -> direction -> method -> bits -> MAP."""


def published_gain(dataset: str, direction: str, method: str, rival: str) -> float | None:
    """By how much a method lies above a rival in the paper, averaged over lengths.

    >>> round(published_gain("nuswide", "image->text", "chn", "scm"), 4)
    0.0919
    >>> published_gain("scenes", "image->text", "chn", "scm")
    """
    maps = PUBLISHED.get(dataset, {}).get(direction, {})
    if method not in maps or rival not in maps:
        return None
    return sum(maps[method][b] - maps[rival][b] for b in LENGTHS) / len(LENGTHS)

"""Options: arguments become parameters, or an error that names the mistake."""

import pytest

from corrhash import InputError
from corrhash.datasets import ImageFeatures, TextOptions
from corrhash.experiments.options import (
    ImageOptions,
    data_options,
    method_class,
    new_hasher,
    parse_params,
    text_options,
)
from corrhash.methods.chn import CHN
from corrhash.methods.cvh import CVH


def test_parameter_values_are_json_or_strings():
    texts = ["ridge=0.1", "epochs=3", "name=small", "on=true", "weights=a=b"]
    assert parse_params(texts) == {
        "ridge": 0.1,
        "epochs": 3,
        "name": "small",
        "on": True,
        "weights": "a=b",
    }


def test_dots_set_fields_of_a_parameter():
    hasher = new_hasher(
        CHN, 16, {"training.epochs": 3, "networks.image": "alexnet", "quantization_weight": 0}
    )
    assert (hasher.training.epochs, hasher.networks.image, hasher.quantization_weight) == (
        3,
        "alexnet",
        0,
    )
    assert hasher.networks.width == CHN().networks.width


def test_invalid_settings_are_rejected():
    with pytest.raises(InputError, match="epochs must be an integer >= 1, got 0"):
        new_hasher(CHN, 16, {"training.epochs": 0})
    with pytest.raises(InputError, match=r"has no parameter 'epochs'.*training.epochs"):
        new_hasher(CHN, 16, {"epochs": 3})


def test_settings_with_their_own_option_are_rejected():
    with pytest.raises(InputError, match=r"training.seed cannot be set here: use --seed"):
        new_hasher(CHN, 16, {"training.seed": 3})


def test_method_is_a_name_or_an_import_path():
    assert method_class("chn") is method_class("corrhash.methods.chn:CHN") is CHN


def test_root_becomes_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = data_options("coco", "data", ["captions=first", "n_query=5"])
    assert options == {"captions": "first", "n_query": 5, "root": str(tmp_path / "data")}
    assert data_options("coco", None, []) == {}


def test_text_options():
    assert text_options([]) is None
    options = text_options(["form=tags", "top=1000", "stop_words=true", "stem=english"])
    assert options == TextOptions("tags", top=1000, stop_words=True, stem="english")


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (data_options, ("coco", None, ["root=x"]), "root cannot be set with --data: use --root"),
        (data_options, ("holiday", "x", []), "named datasets only, and holiday is a path"),
        (text_options, (["tops=3"],), "option 'tops'. Valid names: form, min_count, top"),
        (text_options, (["top=0"],), "top must be a positive integer, got 0"),
        (
            text_options,
            (["form=letters"],),
            "form must be one of words, tags, strings, got 'letters'",
        ),
    ],
)
def test_invalid_options_are_rejected(function, arguments, message):
    with pytest.raises(InputError, match=message):
        function(*arguments)


def test_image_features_default_to_those_of_the_method():
    assert ImageOptions().features(CHN) is None
    assert ImageOptions().features(CVH) == ImageFeatures("simple")
    for method in (CHN, CVH):
        assert ImageOptions().settings(method, {"ridge": 1}) == {"ridge": 1}


def test_backbone_with_weights():
    options = ImageOptions(backbone="alexnet", weights="a.pth", frozen=True)
    assert options.features(CHN) is None
    hasher = new_hasher(CHN, 16, options.settings(CHN, {"training.epochs": 3}))
    networks, training = hasher.networks, hasher.training
    assert (networks.image, networks.image_weights) == ("alexnet", "a.pth")
    assert networks.image_frozen
    assert training.epochs == 3


@pytest.mark.parametrize("method", [CHN, CVH])
def test_weights_are_those_of_the_features_if_any(method):
    options = ImageOptions("alexnet-fc6", weights="a.pth")
    features = options.features(method)
    assert features == ImageFeatures("alexnet-fc6", "a.pth")
    assert options.settings(method, {}) == {}


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ({"backbone": "small"}, "networks.image=small"),
        ({"weights": "a.pth"}, "networks.image_weights=b.pth"),
        ({"frozen": True}, "networks.image_frozen=False"),
    ],
)
def test_option_and_setting_conflict(option, setting):
    (name,) = option
    params = dict([setting.split("=")])
    with pytest.raises(
        InputError, match=f"--{name} and --set {setting} set the same parameter. Remove"
    ):
        ImageOptions(**option).settings(CHN, params)


def test_image_options_that_do_not_apply_are_rejected():
    for options in (ImageOptions("simple", backbone="small"), ImageOptions("simple")):
        frozen = ImageOptions(options.image_features, options.backbone, frozen=True)
        option = "--backbone" if options.backbone else "--frozen"
        with pytest.raises(InputError, match=rf"{option} applies only .* \(simple\)"):
            frozen.settings(CHN, {})
    with pytest.raises(InputError, match="--backbone applies only"):
        ImageOptions(backbone="alexnet").settings(CVH, {})
    with pytest.raises(InputError, match="'simple' take no weights"):
        ImageOptions(weights="a.pth").settings(CVH, {})

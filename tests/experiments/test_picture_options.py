"""PictureOptions: each option goes where it means something, or is refused with a reason."""

import pytest

from corrhash import InputError
from corrhash.datasets import ImageFeatures
from corrhash.experiments.picture_options import PictureOptions
from corrhash.experiments.settings import new_hasher
from corrhash.methods.chn import CHN
from corrhash.methods.cvh import CVH


def test_without_options_each_method_reads_what_it_likes():
    assert PictureOptions().features(CHN) is None
    assert PictureOptions().features(CVH) == ImageFeatures("simple")
    for method in (CHN, CVH):
        assert PictureOptions().settings(method, {"eps": 1}) == {"eps": 1}


def test_a_backbone_with_its_weights_is_trained():
    options = PictureOptions(backbone="alexnet", weights="a.pth", frozen=True, device="cuda")
    assert options.features(CHN) is None
    hasher = new_hasher(CHN, 16, options.settings(CHN, {"training.epochs": 3}))
    networks, training = hasher.networks, hasher.training
    assert (networks.image, networks.image_weights) == ("alexnet", "a.pth")
    assert networks.image_frozen
    assert (training.device, training.epochs) == ("cuda", 3)


@pytest.mark.parametrize("method", [CHN, CVH])
def test_weights_and_device_serve_the_features_where_there_are_some(method):
    options = PictureOptions("alexnet-fc6", weights="a.pth", device="cuda")
    features = options.features(method)
    assert features == ImageFeatures("alexnet-fc6", "a.pth")
    assert features.device == "cuda"
    settings = options.settings(method, {})
    assert settings == ({"training.device": "cuda"} if method is CHN else {})


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ({"backbone": "small"}, "networks.image=small"),
        ({"weights": "a.pth"}, "networks.image_weights=b.pth"),
        ({"frozen": True}, "networks.image_frozen=False"),
        ({"device": "cpu"}, "training.device=cuda"),
    ],
)
def test_an_option_and_its_setting_are_not_given_both(option, setting):
    (name,) = option
    params = dict([setting.split("=")])
    with pytest.raises(InputError, match=f"--{name} and --set {setting} decide the same. Leave"):
        PictureOptions(**option).settings(CHN, params)


def test_options_that_mean_nothing_here_are_refused():
    for options in (PictureOptions("simple", backbone="small"), PictureOptions("simple")):
        frozen = PictureOptions(options.image_features, options.backbone, frozen=True)
        option = "--backbone" if options.backbone else "--frozen"
        with pytest.raises(InputError, match=rf"{option} is for a network.*first \(simple\)"):
            frozen.settings(CHN, {})
    with pytest.raises(InputError, match=r"--backbone is for a network that is trained"):
        PictureOptions(backbone="alexnet").settings(CVH, {})
    with pytest.raises(InputError, match="CVH has no training.device. Leave --device out"):
        PictureOptions(device="cuda").settings(CVH, {})
    with pytest.raises(InputError, match="'simple' take no weights"):
        PictureOptions(weights="a.pth").settings(CVH, {})

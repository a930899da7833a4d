"""AlexNet: the published layout, its stages, and pictures of other sizes."""

import pytest
import torch

from corrhash import InputError
from corrhash.networks.alexnet import AlexNet

# Names and shapes of torchvision's alexnet-owt-7be5be79.pth, fc8 (classifier.6) left out.
PUBLISHED = {
    "features.0.weight": (64, 3, 11, 11),
    "features.0.bias": (64,),
    "features.3.weight": (192, 64, 5, 5),
    "features.3.bias": (192,),
    "features.6.weight": (384, 192, 3, 3),
    "features.6.bias": (384,),
    "features.8.weight": (256, 384, 3, 3),
    "features.8.bias": (256,),
    "features.10.weight": (256, 256, 3, 3),
    "features.10.bias": (256,),
    "classifier.1.weight": (4096, 9216),
    "classifier.1.bias": (4096,),
    "classifier.4.weight": (4096, 4096),
    "classifier.4.bias": (4096,),
}


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return AlexNet().eval()


@pytest.fixture(scope="module")
def pictures():
    return torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))


def test_parameters_are_named_and_shaped_as_published(network):
    assert {name: tuple(p.shape) for name, p in network.state_dict().items()} == PUBLISHED


@torch.no_grad()
def test_each_stage_gives_as_many_features_as_it_says(network, pictures):
    assert list(network.stages) == ["pool5", "fc6", "fc7"]
    for stage, n_features in network.stages.items():
        features = network(pictures, stage=stage)
        assert features.shape == (2, n_features)
        assert features.min() >= 0  # all stages come after a ReLU
    assert network(pictures).shape == (2, network.n_features)


@torch.no_grad()
def test_the_stages_follow_one_another(network, pictures):
    pool5 = network(pictures, stage="pool5")
    fc6 = torch.relu(network.classifier[1](pool5))
    fc7 = torch.relu(network.classifier[4](fc6))
    assert torch.equal(network(pictures, stage="fc6"), fc6)
    assert torch.equal(network(pictures), fc7)


def test_the_layers_of_a_stage_are_those_that_change_it(pictures):
    network = AlexNet().eval()
    for stage, beginnings in network.layers_of_stage.items():
        network.zero_grad()
        network(pictures[:1], stage=stage).sum().backward()
        used = [name for name, p in network.named_parameters() if p.grad is not None]
        assert used == [name for name in PUBLISHED if name.startswith(beginnings)]


@torch.no_grad()
def test_a_fresh_network_keeps_the_scale_of_its_input(network, pictures):
    assert 0.1 < network(pictures).std() < 10


@torch.no_grad()
@pytest.mark.parametrize("side", [63, 96])
def test_other_sizes_work(network, side):
    assert network(torch.zeros(1, 3, side, side), stage="pool5").shape == (1, 9216)


def test_what_is_no_picture_or_no_stage_is_refused(network):
    with pytest.raises(InputError, match="no stage 'fc8'.*pool5, fc6, fc7"):
        network(torch.zeros(1, 3, 64, 64), stage="fc8")
    for shape in [(1, 3, 62, 62), (3, 64, 64), (1, 1, 64, 64)]:
        with pytest.raises(InputError, match="at least 63 pixels.*AlexNet.preprocessing"):
            network(torch.zeros(shape))


def test_pictures_are_prepared_as_the_paper_and_the_weights_ask():
    preprocessing = AlexNet.preprocessing
    assert (preprocessing.resize, preprocessing.crop) == (256, 224)
    assert not preprocessing.keep_aspect
    assert preprocessing.mean == (0.485, 0.456, 0.406)
    assert preprocessing.deviation == (0.229, 0.224, 0.225)

"""AlexNet: torchvision's layout, its stages, and other image sizes."""

import pytest
import torch

from corrhash import InputError
from corrhash.networks.alexnet import AlexNet

# Names and shapes of torchvision's alexnet-owt-7be5be79.pth, without fc8 (classifier.6).
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
def images():
    return torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))


def test_names_and_shapes_are_those_of_torchvision(network):
    assert {name: tuple(p.shape) for name, p in network.state_dict().items()} == PUBLISHED


@torch.no_grad()
def test_stages_have_the_declared_number_of_features(network, images):
    assert list(network.stages) == ["pool5", "fc6", "fc7"]
    for stage, n_features in network.stages.items():
        features = network(images, stage=stage)
        assert features.shape == (2, n_features)
        assert features.min() >= 0  # all stages come after a ReLU
    assert network(images).shape == (2, network.n_features)


@torch.no_grad()
def test_each_stage_is_computed_from_the_one_before(network, images):
    pool5 = network(images, stage="pool5")
    fc6 = torch.relu(network.classifier[1](pool5))
    fc7 = torch.relu(network.classifier[4](fc6))
    assert torch.equal(network(images, stage="fc6"), fc6)
    assert torch.equal(network(images), fc7)


def test_weights_of_stage_lists_the_weights_it_uses(images):
    network = AlexNet().eval()
    for stage, prefixes in network.weights_of_stage.items():
        network.zero_grad()
        network(images[:1], stage=stage).sum().backward()
        used = [name for name, p in network.named_parameters() if p.grad is not None]
        assert used == [name for name in PUBLISHED if name.startswith(prefixes)]


@torch.no_grad()
def test_initialization_keeps_the_scale_of_the_input(network, images):
    assert 0.1 < network(images).std() < 10


@torch.no_grad()
@pytest.mark.parametrize("size", [63, 96])
def test_other_image_sizes_work(network, size):
    assert network(torch.zeros(1, 3, size, size), stage="pool5").shape == (1, 9216)


def test_invalid_images_and_stages_are_refused(network):
    with pytest.raises(InputError, match="Unknown AlexNet stage 'fc8'.*pool5, fc6, fc7"):
        network(torch.zeros(1, 3, 64, 64), stage="fc8")
    for shape in [(1, 3, 62, 62), (3, 64, 64), (1, 1, 64, 64)]:
        with pytest.raises(InputError, match="at least 63 pixels.*AlexNet.preprocessing"):
            network(torch.zeros(shape))


def test_preprocessing_is_that_of_the_paper():
    preprocessing = AlexNet.preprocessing
    assert (preprocessing.resize, preprocessing.crop) == (256, 224)
    assert not preprocessing.keep_aspect
    assert preprocessing.mean == (0.485, 0.456, 0.406)
    assert preprocessing.std == (0.229, 0.224, 0.225)

"""Networks of PyTorch as ONNX graphs, written layer by layer.

Needs the package ``onnx``: ``pip install 'corrhash[onnx]'``.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from corrhash.errors import InputError
from corrhash.networks.alexnet import AlexNet, AlexNetTrunk
from corrhash.networks.hash_layer import HashLayer
from corrhash.networks.small import SmallCNN
from corrhash.networks.standardise import Standardise

OPSET = 18  # operators of 2022, which every runtime in use knows
IR_VERSION = 8  # the format of files of that time
INPUT, OUTPUT = "inputs", "scores"


def onnx_file(layers: list[nn.Module], shape: tuple[int, ...]) -> bytes:
    """The file of a network that is ``layers``, one after the other.

    ``shape`` is that of one item: (d,) for vectors, (3, side, side) for pictures.
    """
    graph = _Graph(shape)
    end = INPUT
    for layer in layers:
        end = graph.write(layer, end)
    return graph.finished(end)


class _Graph:
    """A graph that grows by a layer at a time; ``shape`` follows one item through it."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.entry = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["n", *shape])
        self.shape = shape
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def finished(self, end: str) -> bytes:
        """The file, checked, whose output is the value named ``end``."""
        self.nodes.append(helper.make_node("Identity", [end], [OUTPUT]))
        leaving = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["n", *self.shape])
        graph = helper.make_graph(self.nodes, "network", [self.entry], [leaving], self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="corrhash")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def constant(self, values: Any) -> str:
        """The name of weights."""
        name = f"weights_{len(self.weights)}"
        array = values.detach().cpu().numpy() if torch.is_tensor(values) else values
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The name of what an operator makes of its inputs."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def write(self, layer: nn.Module, x: str) -> str:
        """Add a layer after the value ``x``; the name of what comes out."""
        shape = self.shape
        end = self._write(layer, x)
        with torch.inference_mode():
            self.shape = tuple(layer.eval()(torch.zeros(1, *shape)).shape[1:])
        return end

    @singledispatchmethod
    def _write(self, layer: nn.Module, x: str) -> str:
        raise InputError(
            f"A layer {type(layer).__name__} cannot be exported to ONNX. Encoders of Hugging Face "
            "are exported by their own tools; networks on ready features, on tags and on pictures "
            "(alexnet, small) by this one."
        )

    @_write.register
    def _(self, layer: nn.Sequential, x: str) -> str:
        for each in layer:
            x = self.write(each, x)
        return x

    @_write.register
    def _(self, layer: nn.Dropout, x: str) -> str:
        return x

    @_write.register
    def _(self, layer: nn.Flatten, x: str) -> str:
        return self.node("Flatten", x)

    @_write.register
    def _(self, layer: nn.ReLU, x: str) -> str:
        return self.node("Relu", x)

    @_write.register
    def _(self, layer: nn.Linear, x: str) -> str:
        weight, bias = self.constant(layer.weight), self.constant(layer.bias)
        return self.node("Gemm", x, weight, bias, transB=1)

    @_write.register
    def _(self, layer: nn.Conv2d, x: str) -> str:
        inputs = [x, self.constant(layer.weight)]
        if layer.bias is not None:
            inputs.append(self.constant(layer.bias))
        pads = [*layer.padding] * 2
        return self.node("Conv", *inputs, strides=[*layer.stride], pads=pads)

    @_write.register
    def _(self, layer: nn.BatchNorm2d, x: str) -> str:
        learned = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
        names = [self.constant(values) for values in learned]
        return self.node("BatchNormalization", x, *names, epsilon=layer.eps)

    @_write.register
    def _(self, layer: nn.MaxPool2d, x: str) -> str:
        side, stride = layer.kernel_size, layer.stride
        return self.node("MaxPool", x, kernel_shape=[side, side], strides=[stride, stride])

    @_write.register
    def _(self, layer: nn.AdaptiveAvgPool2d, x: str) -> str:
        _, height, width = self.shape
        side = layer.output_size
        assert isinstance(side, int)
        if height == width == side:
            return x
        # ONNX has no such operator: means of rows and of columns are products with matrices.
        x = self.node("MatMul", self.constant(_window_means(height, side)), x)
        return self.node("MatMul", x, self.constant(_window_means(width, side).T))

    @_write.register
    def _(self, layer: Standardise, x: str) -> str:
        if layer.rooted:
            x = self.node("Sqrt", self.node("Relu", x))
        centred = self.node("Sub", x, self.constant(layer.mean))
        return self.node("Div", centred, self.constant(layer.deviation))

    @_write.register
    def _(self, layer: AlexNet, x: str) -> str:
        for part in (layer.features, layer.avgpool, nn.Flatten(), layer.classifier):
            x = self.write(part, x)
        return x

    @_write.register
    def _(self, layer: AlexNetTrunk, x: str) -> str:
        for part in (layer.features, layer.avgpool, nn.Flatten()):
            x = self.write(part, x)
        return x

    @_write.register
    def _(self, layer: SmallCNN, x: str) -> str:
        maps = self.write(layer.features, x)  # (n, channels, height, width)
        axes = self.constant(np.array([2, 3], dtype=np.int64))
        means = self.node("ReduceMean", maps, axes, keepdims=0)
        largest = self.node("ReduceMax", maps, axes, keepdims=0)
        return self.node("Concat", means, largest, axis=1)

    @_write.register
    def _(self, layer: HashLayer, x: str) -> str:
        x = self._write(layer.fch, x)
        return self.node("Tanh", x) if layer.bounded else x


def _window_means(n: int, n_out: int) -> np.ndarray:
    """(n_out, n): each row takes the mean of the window that an adaptive pooling looks at.

    >>> _window_means(3, 2)
    array([[0.5, 0.5, 0. ],
           [0. , 0.5, 0.5]], dtype=float32)
    """
    means = np.zeros((n_out, n), dtype=np.float32)
    for row in range(n_out):
        first, end = row * n // n_out, -(-(row + 1) * n // n_out)
        means[row, first:end] = 1 / (end - first)
    return means

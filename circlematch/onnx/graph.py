"""An ONNX graph under construction: nodes, constants, inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.errors import require

__all__ = ["IR_VERSION", "LAST", "OPSET", "Graph"]

OPSET = 17  # every runtime since 2022 has it
IR_VERSION = 8  # of the file, as old
LAST = np.iinfo(np.int64).max  # the end of a slice that goes to the end

Shape = tuple[int | str, ...]  # a text names a size that may differ from call to call


class Graph:
    """Nodes in the order in which they are computed. Values are known by their names."""

    def __init__(self) -> None:
        self.onnx = require("onnx", extra="onnx", purpose="an ONNX graph")
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, shape: Shape) -> str:
        """A float input of the graph."""
        self._inputs.append(self._value(name, shape))
        return name

    def output(self, name: str, value: str, shape: Shape) -> None:
        """Give a value out under a name."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, shape))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one output."""
        return self.nodes(operator, 1, *inputs, **attributes)[0]

    def nodes(self, operator: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node of several outputs."""
        names = [f"{operator.lower()}_{len(self._nodes)}" + f"_{i}" * (count > 1) for i in range(count)]
        self._nodes.append(self.onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def constant(self, values: npt.ArrayLike) -> str:
        """Numbers as a value: integers as int64, others as float32. Equal ones are stored once."""
        array = np.asarray(values)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float32)
        tensor = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
        key = tensor.SerializeToString()
        if key not in self._constants:
            tensor.name = f"constant_{len(self._constants)}"
            self._constants[key] = tensor
        return str(self._constants[key].name)

    def reshape(self, value: str, *sizes: int) -> str:
        """0 keeps a size, -1 is what remains."""
        return self.node("Reshape", value, self.constant(sizes))

    def slice(self, value: str, start: int, end: int, axis: int = -1, step: int = 1) -> str:
        """Part of a value; negative places count from the end."""
        return self.node("Slice", value, *(self.constant([number]) for number in (start, end, axis, step)))

    def proto(self, name: str, metadata: dict[str, str], produced_by: tuple[str, str]) -> Any:
        """The whole model, checked by the onnx package."""
        helper = self.onnx.helper
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, list(self._constants.values()))
        producer, version = produced_by
        model = helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name=producer,
            producer_version=version,
        )
        helper.set_model_props(model, metadata)
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _value(self, name: str, shape: Shape) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape)

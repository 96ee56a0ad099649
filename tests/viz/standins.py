"""Tensors and nodes with nothing but the attributes that the pictures read."""

from __future__ import annotations

from typing import Any


class Spec:
    def __init__(self, shape: tuple[int, ...], dtype: str = "sapwood.float32") -> None:
        self.shape = shape
        self.dtype = dtype


class Node:
    """A node as PyTorch's interface has it."""

    def __init__(self, name: str, inputs: tuple[Any, ...] = (), shapes: tuple[tuple[int, ...], ...] = ((1,),)) -> None:
        self._name = name
        self.next_functions = tuple(edge_of(tensor) for tensor in inputs)
        self.metadata: dict[str, Any] = {}
        self._input_metadata = tuple(Spec(shape) for shape in shapes)

    def name(self) -> str:
        return self._name


class Tensor:
    """A tensor that holds nested lists; `grad` of a result that does not retain it must not be asked for."""

    def __init__(
        self,
        value: Any,
        *,
        requires_grad: bool = False,
        grad_fn: Node | None = None,
        output_nr: int = 0,
        grad: Tensor | None = None,
        retains_grad: bool = False,
    ) -> None:
        self.value = value
        self.requires_grad = requires_grad or grad_fn is not None
        self.grad_fn = grad_fn
        self.output_nr = output_nr
        self.retains_grad = retains_grad
        self.dtype = "sapwood.float32"
        self._grad = grad
        self._accumulator: Node | None = None

    @property
    def is_leaf(self) -> bool:
        return self.grad_fn is None

    @property
    def grad(self) -> Tensor | None:
        assert self.is_leaf or self.retains_grad, "the gradient of a tensor that keeps none was read"
        return self._grad

    @property
    def shape(self) -> tuple[int, ...]:
        shape, value = [], self.value
        while isinstance(value, list):
            shape.append(len(value))
            value = value[0] if value else None
        return tuple(shape)

    def detach(self) -> Tensor:
        return Tensor(self.value)

    def reshape(self, size: int) -> Tensor:
        flat = self.value
        while flat and isinstance(flat[0], list):
            flat = [element for row in flat for element in row]
        return Tensor(flat)

    def __getitem__(self, places: slice) -> Tensor:
        return Tensor(self.value[places])

    def tolist(self) -> Any:
        return self.value


def edge_of(tensor: Any) -> tuple[Node | None, int]:
    if not isinstance(tensor, Tensor) or not tensor.requires_grad:
        return None, 0
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    if tensor._accumulator is None:
        tensor._accumulator = Node("torch::autograd::AccumulateGrad", (), (tensor.shape,))
        tensor._accumulator.variable = tensor  # type: ignore[attr-defined]
    return tensor._accumulator, 0


def call(name: str, *inputs: Any, value: Any = None, **options: Any) -> Tensor:
    """Return the result of an op, computed elsewhere, as a tensor with a node."""
    value = [0.0] if value is None else value
    node = Node(f"{name}Backward0", inputs, (Tensor(value).shape,))
    return Tensor(value, grad_fn=node, **options)


def tutorial() -> dict[str, Tensor]:
    """Return y = (x + w) · (w + 1) at x = 2, w = 1 after backward, with the gradient of a retained."""
    x = Tensor([2.0], requires_grad=True, grad=Tensor([2.0]))
    w = Tensor([1.0], requires_grad=True, grad=Tensor([5.0]))
    a = call("Add", x, w, value=[3.0], grad=Tensor([2.0]), retains_grad=True)
    b = call("Add", w, 1, value=[2.0])
    y = call("Mul", a, b, value=[6.0])
    return {"w": w, "x": x, "a": a, "b": b, "y": y}


def chain(length: int) -> Tensor:
    out = Tensor([1.0], requires_grad=True)
    for _ in range(length):
        out = call("Mul", out)
    return out


class Module:
    """A module with the two methods the pictures ask."""

    def __init__(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> None:
        self.parameters, self.buffers = parameters, buffers

    def named_parameters(self) -> Any:
        return self.parameters.items()

    def named_buffers(self) -> Any:
        return self.buffers.items()

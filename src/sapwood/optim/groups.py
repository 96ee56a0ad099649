"""Parameter groups: what an optimizer accepts as parameters, and how it checks them."""

from __future__ import annotations

import warnings
from typing import Any

from ..errors import ArgumentError, ValueRangeError
from ..tensor import Tensor

Group = dict[str, Any]


class _Required:
    """The default of an option that every parameter group must state itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def listed(params: Any) -> list[Any]:
    """Return the argument `params` of a constructor as a list of parameter groups.

    Raises:
        ArgumentError: it is a tensor, not an iterable of them.
        ValueRangeError: it is empty.
    """
    if isinstance(params, Tensor):
        raise ArgumentError("optimizer: params must be an iterable of tensors or dicts, got one tensor; pass [tensor]")
    groups = list(params)
    if not groups:
        raise ValueRangeError(
            "optimizer: params is empty; was a generator used up, or does the module have no parameters?"
        )
    return groups if isinstance(groups[0], dict) else [{"params": groups}]


def admit(group: Any, defaults: dict[str, Any], present: list[Group], stacklevel: int) -> Group:
    """Check a parameter group, fill in the defaults, and return it (the same dict).

    Raises:
        ArgumentError: not a dict, a set of parameters, or a parameter that is not a tensor.
        ValueRangeError: names for some parameters only, a non-leaf, a parameter that another group has, or a required
            option that is missing.
    """
    if not isinstance(group, dict):
        raise ArgumentError(f"add_param_group: a parameter group is a dict, got {type(group).__name__}")
    params = group["params"]
    if isinstance(params, set):
        raise ArgumentError(
            "optimizer: parameters in a set have no order, so a saved state could not be matched to them; pass a list"
        )
    members = [params] if isinstance(params, Tensor) else list(params)
    named = [m for m in members if isinstance(m, tuple)]
    if named and len(named) != len(members):
        raise ValueRangeError(
            f"optimizer: {len(named)} of {len(members)} parameters came with a name; name all of them or none"
        )
    if named:
        group["param_names"] = [name for name, _ in named]
        members = [p for _, p in named]
    group["params"] = members
    _check_members(members, differentiable=bool(defaults.get("differentiable")))
    for name, default in defaults.items():
        if default is required and name not in group:
            raise ValueRangeError(f"optimizer: this parameter group must state {name!r}, which has no default")
        group.setdefault(name, default)
    if len({id(p) for p in members}) != len(members):
        warnings.warn(
            "optimizer: a parameter occurs twice in one parameter group and will be updated twice in each step",
            UserWarning,
            stacklevel=stacklevel,
        )
    _check_others(group, present)
    return group


def _check_members(members: list[Any], *, differentiable: bool) -> None:
    for i, p in enumerate(members):
        if not isinstance(p, Tensor):
            raise ArgumentError(f"optimizer: parameters must be tensors, got {type(p).__name__} at position {i}")
        if not (differentiable or p.is_leaf or p.retains_grad):
            raise ValueRangeError(
                f"optimizer: the parameter at position {i} is not a leaf but the result of {p.grad_fn.name()}, which "
                "the next forward pass computes anew; optimize the leaf it was made from, or detach() it"
                if p.grad_fn is not None
                else f"optimizer: the parameter at position {i} is not a leaf; detach() it"
            )


def _check_others(group: Group, present: list[Group]) -> None:
    ids = {id(p) for p in group["params"]}
    for other in present:
        if ("param_names" in group) != ("param_names" in other):
            raise ValueRangeError("optimizer: name the parameters of all parameter groups or of none")
        if not ids.isdisjoint(id(p) for p in other["params"]):
            raise ValueRangeError("optimizer: a parameter occurs in two parameter groups; which options hold for it?")

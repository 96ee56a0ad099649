"""Writing over saved values on purpose: what a graph still needs is copied right before the write."""

from __future__ import annotations

import weakref

from .. import alias
from ..errors import GradError
from ..tensor import Tensor, wrap
from .observe import saved_tensors_hooks


class _Kept:
    """A saved value: its array, replaced by a copy when the memory is about to be written to."""

    __slots__ = ("__weakref__", "array")

    def __init__(self, tensor: Tensor) -> None:
        self.array = tensor._array


class _AllowMutationOnSavedContext:
    """The saved values of one `with allow_mutation_on_saved_tensors()`, by the memory they lie in."""

    def __init__(self) -> None:
        self.open = True
        self._by_memory: dict[int, weakref.WeakSet[_Kept]] = {}

    def keep(self, tensor: Tensor) -> _Kept:
        """Note a value that is being saved."""
        kept = _Kept(tensor)
        self._by_memory.setdefault(id(alias.owner(tensor._array)), weakref.WeakSet()).add(kept)
        return kept

    def restore(self, kept: _Kept) -> Tensor:
        """Return a saved value as it was."""
        if not self.open:
            raise GradError(
                "allow_mutation_on_saved_tensors: backward must run inside the context in which the graph was made"
            )
        return wrap(kept.array)

    def protect(self, tensor: Tensor) -> None:
        """Copy the saved values that a write to `tensor` would change."""
        for kept in self._by_memory.pop(id(alias.owner(tensor._array)), ()):
            kept.array = kept.array.copy()

    def clear(self) -> None:
        """Forget every saved value."""
        self.open = False
        self._by_memory.clear()


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Let in-place ops write over saved values inside: each is copied before the first write that would change it.

    Backward must run inside the context as well.

    Example:
        >>> import sapwood
        >>> x = sapwood.ones(2, requires_grad=True)
        >>> with sapwood.autograd.graph.allow_mutation_on_saved_tensors():
        ...     a = x * 1
        ...     y = (a * a).sum()
        ...     _ = a.zero_()
        ...     y.backward()
        >>> x.grad
        tensor([2., 2.])

    Raises:
        GradError: entered inside itself.
    """

    def __init__(self) -> None:
        self._context = _AllowMutationOnSavedContext()
        super().__init__(self._context.keep, self._context.restore)

    def __enter__(self) -> _AllowMutationOnSavedContext:
        if alias.guards:
            raise GradError("allow_mutation_on_saved_tensors: contexts of this kind cannot be nested")
        super().__enter__()
        alias.guards.append(self._context.protect)
        return self._context

    def __exit__(self, *exception: object) -> None:
        alias.guards.remove(self._context.protect)
        self._context.clear()
        super().__exit__(*exception)

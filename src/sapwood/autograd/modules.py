"""Which module is running: names of submodules for those who watch calls."""

from __future__ import annotations

from typing import Any


class Paths:
    """Inside, knows the path of the submodule of `module` whose forward is running."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._running: list[str] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Paths:
        if self.module is not None:
            for name, m in self.module.named_modules():
                path = f"{name} ({type(m).__name__})" if name else type(m).__name__
                self._handles.append(m.register_forward_pre_hook(self._enter(path), prepend=True))
                self._handles.append(m.register_forward_hook(self._leave, always_call=True))
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._running.clear()

    def now(self) -> str:
        """Return the innermost running submodule, an empty string outside all of them."""
        return self._running[-1] if self._running else ""

    def _enter(self, path: str) -> Any:
        def entered(module: Any, args: Any) -> None:
            self._running.append(path)

        return entered

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        if self._running:
            self._running.pop()

"""A model that is open, and how it is opened again: copies and pickles have no compiled part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from highwater._native import Model


class Opened:
    """A model that is open. It never changes."""

    def __init__(self, content: bytes | Path | str, name: str = "", recipes: tuple[tuple[str, str | None], ...] = ()):
        """The model in some bytes that have this name; or in a file, or of a name where there is no such file."""
        is_file = not isinstance(content, bytes) and Path(content).is_file()
        # Whoever opens it again may be elsewhere.
        self._given = (Path(content).resolve() if is_file else content, name, recipes)  # type: ignore[arg-type]
        model = Model.read(content, name) if isinstance(content, bytes) else Model.open(str(content))
        for text, pytorch in recipes:
            model = model.trained_by(text, pytorch)
        self._model = model

    def trained_by(self, text: str, pytorch: str | None) -> Opened:
        """The model, trained as a recipe states."""
        content, name, recipes = self._given
        return Opened(content, name, (*recipes, (text, pytorch)))

    def usual(self, setting: str) -> str | None:
        """What a setting is where the user states nothing."""
        return self._model.usual(setting)

    def ask(self, arguments: list[str]) -> str:
        """What the command line prints about it."""
        return self._model.ask(arguments)

    def __reduce__(self) -> tuple[Callable[..., Opened], tuple[Any, ...]]:
        return Opened, self._given

    def __copy__(self) -> Opened:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Opened:
        return self

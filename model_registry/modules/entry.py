"""An entry of the module database, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from genz_core.errors import InvalidValue
from model_registry.modules.polynomial import Polynomial

#: FLOPs; bytes read from and written to memory by the module as one fused operator; bytes exchanged
#: between its operators. Classes also have held_bytes, the size of their weights.
FIGURES = ("flops", "read_bytes", "write_bytes", "intermediate_bytes")


@dataclass(frozen=True, slots=True)
class ChildModule:
    """A module inside a module: its attribute, its class, and how often it is called."""

    name: str
    module: str
    count: int


@dataclass(frozen=True, slots=True)
class ModuleEntry:
    """Formulas of one class.

    module: full path of the class.  source: its file, line and package version.  symbols: of the
    formulas.  formulas: by `FIGURES`.  sizes: the fixed sizes at which it was derived.
    operators: how often each tensor operator runs.  validated: {"by", "on"}: who checked it and
    when, empty if unchecked.  single: formulas of one new token where they differ from those of
    several, as in recurrences.
    """

    module: str
    source: str
    symbols: tuple[str, ...]
    formulas: Mapping[str, Polynomial]
    parameters: float = 0.0
    children: tuple[ChildModule, ...] = ()
    operators: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    validated: Mapping[str, str] = field(default_factory=dict)
    single: Mapping[str, Polynomial] = field(default_factory=dict)

    def evaluate(self, **values: float) -> dict[str, float]:
        """{figure: value} at values of the symbols.

        Raises:
            InvalidValue: a symbol without a value.
        """
        lacking = [symbol for symbol in self.symbols if symbol not in values]
        if lacking:
            raise InvalidValue(
                f"{self.module} needs {', '.join(lacking)}; its symbols: {', '.join(self.symbols)}"
            )
        alone = self.single and values.get("new_tokens") == 1
        formulas = self.single if alone else self.formulas
        return {name: formula(values) for name, formula in formulas.items()}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` reads it back."""
        return {
            "module": self.module,
            "source": self.source,
            "symbols": list(self.symbols),
            "formulas": {name: formula.text() for name, formula in self.formulas.items()},
            "coefficients": {name: formula.to_json() for name, formula in self.formulas.items()},
            "parameters": self.parameters,
            "children": [
                {"name": c.name, "module": c.module, "count": c.count} for c in self.children
            ],
            "operators": dict(self.operators),
            "sizes": dict(self.sizes),
            "validated": dict(self.validated),
            **(
                {"single": {n: one.to_json() for n, one in self.single.items()}}
                if self.single
                else {}
            ),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModuleEntry:
        """Read an entry that `to_json` wrote.  Raises `KeyError` or `TypeError` otherwise."""
        symbols = tuple(data["symbols"])
        formulas = {
            name: Polynomial.from_json(symbols, terms)
            for name, terms in data["coefficients"].items()
        }
        return cls(
            data["module"],
            data["source"],
            symbols,
            formulas,
            data["parameters"],
            tuple(ChildModule(**child) for child in data["children"]),
            data["operators"],
            data["sizes"],
            data["validated"],
            {
                name: Polynomial.from_json(symbols, terms)
                for name, terms in data.get("single", {}).items()
            },
        )

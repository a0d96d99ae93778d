"""The answer in a notebook, and comparisons as text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highwater._estimate import Comparison, Estimate

# Each notebook tells its own way that it is dark; where none does, the browser's preference counts.
STYLE = """
.highwater { font-family: system-ui, sans-serif; max-width: 75rem; }
.highwater svg { display: block; width: 100%; height: auto; }
.highwater .in-dark { display: none; }
@media (prefers-color-scheme: dark) {
  .highwater .in-light { display: none; }
  .highwater .in-dark { display: block; }
}
[data-jp-theme-light="true"] .highwater .in-light, .vscode-light .highwater .in-light,
html[theme="light"] .highwater .in-light { display: block; }
[data-jp-theme-light="true"] .highwater .in-dark, .vscode-light .highwater .in-dark,
html[theme="light"] .highwater .in-dark { display: none; }
[data-jp-theme-light="false"] .highwater .in-light, .vscode-dark .highwater .in-light,
html[theme="dark"] .highwater .in-light { display: none; }
[data-jp-theme-light="false"] .highwater .in-dark, .vscode-dark .highwater .in-dark,
html[theme="dark"] .highwater .in-dark { display: block; }
"""


def render(estimate: Estimate) -> str:
    """The picture for a light and for a dark ground, and what was assumed."""
    headline = escape(str(estimate))
    pictures = "".join(
        f'<div class="in-{ground}" role="img" aria-label="{headline}">{estimate.svg(dark=ground == "dark")}</div>'
        for ground in ("light", "dark")
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in estimate.diagnostics)
    assumed = f"<details><summary>Assumptions and notes</summary><ul>{notes}</ul></details>" if notes else ""
    return f'<style>{STYLE}</style><div class="highwater">{pictures}{assumed}</div>'


def size(count: int) -> str:
    """A size as people read it: 2.80 GiB."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} B"


def comparison(result: Comparison) -> str:
    """Estimate and recording, a line for each phase."""
    rows = [("", "estimated", "recorded", "difference")]
    pairs = [
        ("allocated", result.estimated.allocated, result.recorded.allocated),
        ("reserved", result.estimated.reserved, result.recorded.reserved),
    ]
    pairs += [
        (f"{phase.iteration or ''} {phase.phase}".strip(), phase.estimate, phase.recorded) for phase in result.phases
    ]
    for name, estimate, recorded in pairs:
        difference = "=" if estimate == recorded else f"{100 * (estimate / max(recorded, 1) - 1):+.1f} %"
        rows.append((name, size(estimate), size(recorded), difference))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *aligned]).rstrip())
    return "\n".join(lines)

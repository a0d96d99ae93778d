"""The notebooks run without an error, and what they assert about their numbers holds."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

import highwater

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

FOLDER = Path(__file__).parents[1] / "notebooks"
LESSONS = ["why-the-peak", "checkpointing", "lora"]
NAMES = ["tour", *LESSONS]

REPOSITORY = "OWNER/REPOSITORY"
"""The public repository, which every notebook names in its badge and where it installs from."""

SECONDS = 60
"""The most of a processor's time that a notebook may take; the machine may be busy with other tests."""


def _read(name: str):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def test_all_notebooks_are_tested():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_runs(name: str):
    notebook = _read(name)
    before = _seconds()
    # A cell that fails raises here, with its traceback.
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    assert 1 < _seconds() - before < SECONDS


def _seconds() -> float:
    """What programs that this one started, and that have ended, took of a processor."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("name", NAMES)
def test_is_committed_without_results(name: str):
    notebook = _read(name)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs"), cell.source
        assert cell.get("execution_count") is None, cell.source
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("name", NAMES)
def test_begins_with_a_badge_and_an_installation(name: str):
    first, install = _read(name).cells[:2]
    target = f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/python/notebooks/{name}.ipynb"
    assert target in first.source
    assert f"https://github.com/{REPOSITORY}/releases/expanded_assets/v{highwater.__version__}" in install.source
    # An index has another project of this name.
    assert "--no-index" in install.source
    assert "except ImportError:" in install.source


@pytest.mark.parametrize("name", LESSONS)
def test_teaches(name: str):
    cells = _read(name).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert "**You will be able to**" in text
    assert text.index("## Exercises") < text.index("## Answers")
    # Students write a prediction before the cell that answers shows it.
    asked = re.compile(r"^(my_\w+)(?:, my_\w+)* = None", re.MULTILINE)
    predictions = [name for source in code for name in asked.findall(source)]
    assert len(predictions) >= 4
    for prediction in predictions:
        uses = [index for index, source in enumerate(code) if prediction in source]
        assert len(uses) == 2, prediction
    # Every number that the text teaches is checked.
    assert sum("assert " in source for source in code) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_needs_no_network(name: str):
    code = "\n".join(cell.source for cell in _read(name).cells[2:] if cell.cell_type == "code")
    assert not re.search(r"from_pretrained|load_dataset|weights=|https?://|urlopen|pip ", code)

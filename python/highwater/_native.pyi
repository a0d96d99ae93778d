"""The compiled part: models that are open, and what the command line says of them."""

__version__: str

class Error(ValueError):
    """What cannot be estimated, and why: a model that cannot be read, a setting that there is not."""

class Model:
    """A model that was read; its weights were not."""

    @staticmethod
    def named(name: str) -> Model | None:
        """The published model of a name; None where there is none."""
    @staticmethod
    def open(path: str) -> Model:
        """The model in a file, or that of a name where there is no such file."""
    @staticmethod
    def read(bytes: bytes, name: str) -> Model:
        """The model in some bytes."""
    def trained_by(self, text: str, pytorch: str | None) -> Model:
        """The model, trained as a recipe says."""
    def usual(self, setting: str) -> str | None:
        """What a setting is where the user states nothing: what the model or its recipe suggests."""
    def ask(self, arguments: list[str]) -> str:
        """What the command line prints about it."""
    def dims(self) -> list[str]:
        """Names of the dimensions that are open, the batch first."""

def main(arguments: list[str]) -> int:
    """The command line: its exit status."""

def check_flags(flags: list[str]) -> None:
    """Refuses flags that the command line does not have, and their values, as far as that needs no model."""

def check_recipe(text: str, pytorch: str | None) -> None:
    """Refuses a text that is no training recipe."""

def devices() -> list[str]:
    """The GPUs that `device=` takes; slices of them, such as `a100-80gb 3g.40gb`, may be given as well."""

def device_called(name: str, total: int) -> str | None:
    """The GPU that a driver gives this name and so many bytes; None where it is unknown."""

def settings() -> list[tuple[str, bool, str]]:
    """Settings of a training: name, whether it is a flag without a value, and its usual value."""

"""What a kernel is launched with, in a TOML file beside it: arguments, block, grid, product."""

import tomllib
from pathlib import Path

import msgspec

from ...db.errors import LanemapError, validated

_Extents = int | list[int] | None


class Settings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The options of ``lanemap trace``, each by its name; ``args`` has an argument for each name, in their order."""

    args: dict[str, str | int | float] = {}
    product: str | None = None
    block: _Extents = None
    grid: _Extents = None
    shared: int | None = None
    entry: str | None = None
    source: str | None = None
    seed: int | None = None

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments as on the command line."""
        return {name: str(value) for name, value in self.args.items()}


def read(file: Path) -> Settings:
    """The settings in a file.

    Raises:
        LanemapError: it cannot be read, is no TOML, or has what is no setting.
    """
    try:
        written = tomllib.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        words = f"cannot read {file}: {error.strerror}: name a file such as gemm.trace.toml"
        raise LanemapError(words, "args") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise LanemapError(f"{file} is no TOML: {error}", "args") from None
    try:
        settings: Settings = validated(written, Settings, Settings.__struct_fields__)
    except LanemapError as error:
        raise LanemapError(f"{file}: {error}", "args") from None
    return settings

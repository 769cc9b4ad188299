"""Instructions, their forms, types and spellings."""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def data(name: str) -> Any:
    """What the file of a name holds, which lies beside the modules."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text("utf-8"))


def by_word(name: str) -> dict[str, str]:
    """What each word of a kind in ``words`` stands for: there every meaning has all its words behind it."""
    return {word: meaning for meaning, words in data("words")[name].items() for word in words.split()}

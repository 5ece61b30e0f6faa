"""Logs and metrics without the names that people gave."""

import json
import re
from typing import Any, Final

from gpusharing.snapshots.pseudonyms import Pseudonyms

_NAME: Final = r"(?:gpusharing|process|python)_\w+"
_VALUE: Final = r"[-+]?(?:[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|Inf|NaN)"
_SAMPLE: Final = re.compile(rf"(?P<head>{_NAME})(?:\{{(?P<labels>.*)\}})?(?P<value> {_VALUE})", re.ASCII)
_TYPE: Final = re.compile(rf"# TYPE {_NAME} [a-z]+", re.ASCII)
_LABEL: Final = re.compile(r'(?P<name>[a-zA-Z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"', re.ASCII)


def anonymous_log(text: str, pseudonyms: Pseudonyms) -> str:
    return "".join(f"{_line(line, pseudonyms)}\n" for line in text.splitlines())


def _line(line: str, pseudonyms: Pseudonyms) -> str:
    """Both programs write JSON; what ends a program writes what it likes."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return pseudonyms.prose(line)
    if not isinstance(value, dict):
        return pseudonyms.prose(line)
    return json.dumps(_changed(value, pseudonyms), ensure_ascii=False)


def _changed(value: Any, pseudonyms: Pseudonyms) -> Any:
    match value:
        case dict():
            return {pseudonyms.prose(key): _changed(item, pseudonyms) for key, item in value.items()}
        case list():
            return [_changed(item, pseudonyms) for item in value]
        case str():
            return pseudonyms.prose(value)
        case _:
            return value


def anonymous_metrics(text: str, pseudonyms: Pseudonyms) -> str:
    """What is not a sample, or the type of one, is left out."""
    return "".join(f"{line}\n" for one in text.splitlines() if (line := _sample(one, pseudonyms)))


def _sample(line: str, pseudonyms: Pseudonyms) -> str:
    if _TYPE.fullmatch(line):
        return line
    found = _SAMPLE.fullmatch(line)
    if found is None:
        return ""
    if found["labels"] is None:
        return line
    labels = ",".join(
        f'{label["name"]}="{pseudonyms.prose(label["value"])}"' for label in _LABEL.finditer(found["labels"])
    )
    return f"{found['head']}{{{labels}}}{found['value']}"

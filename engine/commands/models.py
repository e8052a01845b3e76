"""`engine models`: lists the models, and whether each is available on this machine."""

from __future__ import annotations

import argparse
import json
from typing import Any

from engine.core.format import quantity
from engine.core.terminal import table_lines
from engine.hardware.model_catalog import list_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="a list of objects")


def run(args: argparse.Namespace) -> int:
    """Always 0: an unavailable model is no failure."""
    rows = list_models()
    print(json.dumps(rows) if args.json else _table(rows))
    return 0


def _table(rows: list[dict[str, Any]]) -> str:
    cells = [
        [row["name"], row["kind"], _count(row["parameters"]), "yes" if row["available"] else f"no: {row['why']}"]
        for row in rows
    ]
    lines = table_lines(cells, "llrl", ("name", "weights", "parameters", "available"))
    for place, row in enumerate(rows):
        lines.insert(2 * place + 2, f"  {row['description']} ({row['license']})")
    lines.append("A folder or hub id of any causal language model in safetensors or GGUF works too.")
    return "\n".join(lines)


def _count(parameters: int) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if parameters >= size:
            return quantity(parameters / size, letter)
    return str(parameters)

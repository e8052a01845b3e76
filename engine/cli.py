"""The engine's command line: `python -m engine COMMAND`, the commands as COMMANDS lists them.

Exit 0 done, 1 the run failed, ran out of memory, was stopped or unequal, 2 bad input with one clear line.
"""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from engine.commands import arrivals, calibrate, memory, models, overhead, parity, run, simulate, sweep
from engine.commands.experiments import require_alone
from engine.core.errors import EngineOutOfMemory
from engine.core.format import fit_terminal

UNUSABLE_FOLDER = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)

COMMANDS = {
    "run": (run, "one run of an engine over a workload, logged under LAB_HOME"),
    "sweep": (sweep, "batch sizes by prompt lengths, as one experiment"),
    "arrivals": (arrivals, "engines under load: the same requests at each rate, their capacity and their knee"),
    "overhead": (overhead, "what stopping after each pass costs: sync against async timing, on a GPU"),
    "parity": (parity, "compare every engine's tokens with serial's and with transformers' generate"),
    "memory": (memory, "what weights, KV cache and activations need, and the batch size at which memory ends"),
    "simulate": (simulate, "a run that nobody has to wait for: the same schedule, passes as long as figures say"),
    "models": (models, "the models that can be named"),
    "calibrate": (calibrate, "measure this machine's ceilings"),
}


class OneLineParser(argparse.ArgumentParser):
    """argparse, but bad input gets one line and no usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser() -> OneLineParser:
    parser = OneLineParser(prog="python -m engine", description="Real runs of real models, logged token by token.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, help_text) in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=help_text, description=help_text.capitalize() + "."))
    return parser


def main(arguments: list[str] | None = None) -> int:
    fit_terminal(sys.stdout, sys.stderr)
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    args = parser.parse_args(arguments)
    module, _ = COMMANDS[args.command]
    try:
        if getattr(args, "resume", None) is not None:
            require_alone(args.resume, module.add_arguments, arguments[1:], getattr(module, "WITH_RESUME", ()))
        code: int = module.run(args)
        return code
    except ValueError as error:
        print(f"{parser.prog} {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{parser.prog} {args.command}: stopped", file=sys.stderr)
        return 130
    except InterruptedError:
        print(f"{parser.prog} {args.command}: stopped while waiting for the device", file=sys.stderr)
        return 1
    except EngineOutOfMemory as error:
        print(f"{parser.prog} {args.command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{parser.prog} {args.command}: {error}; LAB_HOME and LAB_CACHE name the lab's folders", file=sys.stderr)
        return 2 if isinstance(error, UNUSABLE_FOLDER) else 1

"""The engine's command line: `python -m engine COMMAND`, with the commands of COMMANDS.

Exit codes: 0 done; 1 failed, out of memory, stopped or unequal; 2 bad input, with one clear line.
"""

from __future__ import annotations

import sys

from engine.commands import arrivals, calibrate, gpus, memory, models, overhead, parity, run, simulate, sweep
from engine.commands.experiments import require_alone
from engine.core.errors import EngineOutOfMemory, shortened
from engine.core.format import fit_terminal
from engine.core.terminal import OneLineParser

UNUSABLE_FOLDER = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)

COMMANDS = {
    "run": (run, "run an engine over a workload and log it under LAB_HOME"),
    "sweep": (sweep, "measure batch sizes by prompt lengths, as one experiment"),
    "arrivals": (arrivals, "load test engines: the same requests at each rate; capacity and saturation point"),
    "overhead": (overhead, "measure the cost of stopping after each pass: sync against async timing, on a GPU"),
    "parity": (parity, "compare every engine's tokens with serial's and with transformers' generate"),
    "memory": (memory, "calculate weights, KV cache and activations, and the largest batch that fits"),
    "simulate": (simulate, "simulate a run: same schedulers, step times from a hardware model"),
    "gpus": (gpus, "find how many GPUs serve a rate within latency limits, by simulation"),
    "models": (models, "list the models"),
    "calibrate": (calibrate, "measure this machine's limits: memory bandwidth, matrix products, launches, passes"),
}


def build_parser() -> OneLineParser:
    parser = OneLineParser(prog="python -m engine", description="Run real models and log every token.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, help_text) in COMMANDS.items():
        description = f"{help_text[0].upper()}{help_text[1:]}."
        module.add_arguments(commands.add_parser(name, help=help_text, description=description))
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
        print(f"{parser.prog} {args.command}: {shortened(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{parser.prog} {args.command}: stopped", file=sys.stderr)
        return 130
    except InterruptedError:
        print(f"{parser.prog} {args.command}: stopped while waiting for the device", file=sys.stderr)
        return 1
    except EngineOutOfMemory as error:
        print(f"{parser.prog} {args.command}: {shortened(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"{parser.prog} {args.command}: {shortened(str(error))}; LAB_HOME and LAB_CACHE set the lab's folders",
            file=sys.stderr,
        )
        return 2 if isinstance(error, UNUSABLE_FOLDER) else 1

import os
import sys

from store.cli.main import main

try:
    status = main()
    sys.stdout.flush()
except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = 1
sys.exit(status)

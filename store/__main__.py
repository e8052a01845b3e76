import os
import sys

from store.cli.main import main

try:
    status = main()
    sys.stdout.flush()
except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = 1
sys.exit(status)

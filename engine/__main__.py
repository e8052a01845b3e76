import os

from engine.cli import main
from engine.hardware.threads import brief_spinning

if __name__ == "__main__":
    os.environ.update(brief_spinning(os.environ))
    raise SystemExit(main())

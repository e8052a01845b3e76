import sys

from pages.report.command import main

sys.exit(main())

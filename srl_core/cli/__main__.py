"""`python -m srl_core.cli` is `srl`."""

from __future__ import annotations

import sys

from srl_core.cli import main

sys.exit(main())

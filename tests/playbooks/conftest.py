"""What runs on managed hosts is imported as it stands there: as packages of ``module_utils``."""

import sys
from pathlib import Path

_SHARED = str(Path(__file__).parents[2] / "playbooks")
if _SHARED not in sys.path:
    sys.path.insert(0, _SHARED)

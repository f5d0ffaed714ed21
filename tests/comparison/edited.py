"""Results as somebody edited them: a document's JSON, changed, written elsewhere."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any


"""Puts the description of layers that the golden values were made with within reach of the tests beside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))

"""Every draw at the level of arrays: what the tensor functions, layers and distributions are made of."""

from __future__ import annotations

from sapwood.random.choice import *
from sapwood.random.draws import *
from sapwood.random.generator import *
from sapwood.random.integers import *
from sapwood.random.rejection import *

"""Random numbers: the generator, and draws that fill arrays with PyTorch's CPU streams."""

from sapwood.random.choice import *
from sapwood.random.draws import *
from sapwood.random.generator import *
from sapwood.random.integers import *
from sapwood.random.rejection import *

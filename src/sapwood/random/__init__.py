"""Random numbers: the generator and its state. Draws that fill arrays with PyTorch's CPU streams are in `arrays`."""

from sapwood.random.generator import Generator as Generator
from sapwood.random.generator import default_generator as default_generator
from sapwood.random.generator import fork_rng as fork_rng
from sapwood.random.generator import get_rng_state as get_rng_state
from sapwood.random.generator import initial_seed as initial_seed
from sapwood.random.generator import manual_seed as manual_seed
from sapwood.random.generator import seed as seed
from sapwood.random.generator import set_rng_state as set_rng_state
from sapwood.random.generator import thread_safe_generator as thread_safe_generator

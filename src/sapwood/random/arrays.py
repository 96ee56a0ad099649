"""Every draw at the level of arrays: what the tensor functions, layers and distributions are made of."""

from __future__ import annotations

from sapwood.random.choice import multinomial as multinomial
from sapwood.random.choice import randperm as randperm
from sapwood.random.draws import bernoulli as bernoulli
from sapwood.random.draws import bernoulli_ as bernoulli_
from sapwood.random.draws import cauchy_ as cauchy_
from sapwood.random.draws import dropout_noise_ as dropout_noise_
from sapwood.random.draws import exponential_ as exponential_
from sapwood.random.draws import geometric_ as geometric_
from sapwood.random.draws import log_normal_ as log_normal_
from sapwood.random.draws import normal as normal
from sapwood.random.draws import normal_ as normal_
from sapwood.random.draws import rand as rand
from sapwood.random.draws import randn as randn
from sapwood.random.draws import trunc_normal_ as trunc_normal_
from sapwood.random.draws import uniform_ as uniform_
from sapwood.random.generator import Generator as Generator
from sapwood.random.generator import default_generator as default_generator
from sapwood.random.generator import fork_rng as fork_rng
from sapwood.random.generator import get_rng_state as get_rng_state
from sapwood.random.generator import initial_seed as initial_seed
from sapwood.random.generator import manual_seed as manual_seed
from sapwood.random.generator import seed as seed
from sapwood.random.generator import set_rng_state as set_rng_state
from sapwood.random.generator import thread_safe_generator as thread_safe_generator
from sapwood.random.integers import randint as randint
from sapwood.random.integers import random_ as random_
from sapwood.random.rejection import binomial as binomial
from sapwood.random.rejection import dirichlet as dirichlet
from sapwood.random.rejection import poisson as poisson
from sapwood.random.rejection import standard_gamma as standard_gamma

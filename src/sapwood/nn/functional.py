"""Functions of neural networks: the names of `torch.nn.functional` over the ops."""

from __future__ import annotations

from ..ops.adaptive import adaptive_avg_pool1d as adaptive_avg_pool1d
from ..ops.adaptive import adaptive_avg_pool2d as adaptive_avg_pool2d
from ..ops.adaptive import adaptive_avg_pool3d as adaptive_avg_pool3d
from ..ops.adaptive import adaptive_max_pool1d as adaptive_max_pool1d
from ..ops.adaptive import adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices
from ..ops.adaptive import adaptive_max_pool2d as adaptive_max_pool2d
from ..ops.adaptive import adaptive_max_pool3d as adaptive_max_pool3d
from ..ops.adaptive import fractional_max_pool2d as fractional_max_pool2d
from ..ops.adaptive import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from ..ops.adaptive import fractional_max_pool3d as fractional_max_pool3d
from ..ops.adaptive import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from ..ops.adaptive import max_unpool1d as max_unpool1d
from ..ops.adaptive import max_unpool2d as max_unpool2d
from ..ops.adaptive import max_unpool3d as max_unpool3d
from ..ops.columns import fold as fold
from ..ops.columns import unfold as unfold
from ..ops.conv import conv1d as conv1d
from ..ops.conv import conv2d as conv2d
from ..ops.conv import conv3d as conv3d
from ..ops.conv import conv_transpose1d as conv_transpose1d
from ..ops.conv import conv_transpose2d as conv_transpose2d
from ..ops.conv import conv_transpose3d as conv_transpose3d
from ..ops.distance import cosine_similarity as cosine_similarity
from ..ops.distance import pairwise_distance as pairwise_distance
from ..ops.distance import pdist as pdist
from ..ops.embedding import lookup
from ..ops.embedding import one_hot as one_hot
from ..ops.embedding_bag import embedding_bag as embedding_bag
from ..ops.pool import avg_pool1d as avg_pool1d
from ..ops.pool import avg_pool2d as avg_pool2d
from ..ops.pool import avg_pool3d as avg_pool3d
from ..ops.pool import lp_pool1d as lp_pool1d
from ..ops.pool import lp_pool2d as lp_pool2d
from ..ops.pool import lp_pool3d as lp_pool3d
from ..ops.pool import max_pool1d as max_pool1d
from ..ops.pool import max_pool1d_with_indices as max_pool1d_with_indices
from ..ops.pool import max_pool2d as max_pool2d
from ..ops.pool import max_pool2d_with_indices as max_pool2d_with_indices
from ..ops.pool import max_pool3d as max_pool3d
from ..ops.pool import max_pool3d_with_indices as max_pool3d_with_indices
from ..ops.products import bilinear as bilinear
from ..ops.products import linear as linear

# Activations, normalisation, dropout, resampling, losses.
from .functional_activation import *
from .functional_layers import *
from .functional_loss import *

embedding = lookup

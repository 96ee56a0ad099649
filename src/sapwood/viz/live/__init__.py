"""Training in the browser while it runs: curves, norms, update ratios, histograms, and the first NaN by name."""

from sapwood.viz.live.watching import Progress, Watch, watch

__all__ = ["Progress", "Watch", "watch"]

"""Statistics of columns, for `fp.fit`: what is to be found out, and what was."""

from .distinct_values import counts as counts
from .distinct_values import vocabulary as vocabulary
from .statistics import mean_std as mean_std
from .statistics import min_max as min_max
from .statistics import missing as missing
from .statistics import quantiles as quantiles

__all__ = ["counts", "mean_std", "min_max", "missing", "quantiles", "vocabulary"]

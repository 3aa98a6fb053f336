"""Statistics of columns: the requests and the results of `fp.fit`."""

from .distinct_values import counts as counts
from .distinct_values import vocabulary as vocabulary
from .statistics import mean_std as mean_std
from .statistics import min_max as min_max
from .statistics import missing as missing
from .statistics import quantiles as quantiles

__all__ = ["counts", "mean_std", "min_max", "missing", "quantiles", "vocabulary"]

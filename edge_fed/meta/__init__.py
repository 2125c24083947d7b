"""Meta-gradients: adaptation, policy gradient, curvature, and the variants built of them.

The tables say what a configuration can name: `VARIANTS` here, `CURVATURES` and `BASELINES` beside their
entries. A new variant is one file and one line.
"""

from edge_fed.meta.base import MetaGradient
from edge_fed.meta.baselines import BASELINES
from edge_fed.meta.curvature import CURVATURES
from edge_fed.meta.exact import exact
from edge_fed.meta.fedavg_pg import fedavg_pg
from edge_fed.meta.first_order import first_order
from edge_fed.meta.sg_mrl import sg_mrl
from edge_fed.tables import Table

__all__ = ["BASELINES", "CURVATURES", "CURVED", "VARIANTS"]

VARIANTS: Table[MetaGradient] = Table(
    "variant",
    {
        "exact": exact,
        "first_order": first_order,
        "fedavg_pg": fedavg_pg,
        "sg_mrl": sg_mrl,
    },
)
"""The table of ``variant``."""

CURVED = {"exact"}
"""Names of those that estimate curvature, from ``hessian_batch``."""

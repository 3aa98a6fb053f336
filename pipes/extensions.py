"""What operators, sources and reading services of other packages import.

This module follows semantic versioning from version 1.0 on. No other module does, but for the public names of
`feedpipe`, `feedpipe.errors` and `feedpipe.testing`. `docs/internals/operators.md` describes the contracts;
`feedpipe.testing.check_operator` proves that those of operators are kept.

- Operators and sources: `Operator`, `Source`, `Grouping`, `Order`, `Columns`; `StageView`, their view of the graph, and
  `Input`, one of their inputs; `Context`, the run; `generator`, the random generator of a row; `Weights`, the costs of
  work units.
- Rows between operators: `Block`, `Cursor`, `START`; `BlockRows` and `Indices`, the types of rows and of their
  positions; `Rows`, rows held as columns; `Json`, the type of a token.
- Databases: `SqlDriver` and `SqlConnection`, which a driver for `read_sql` defines; `SqlQuery` and `KeyRange`.
- Reading services: `ReadingService`, `Executor`, `Session`; `Plan` and `Position`, their input; `Step` and `ShardEnd`,
  their output.
"""

from .core.block import Block as Block
from .core.context import Context as Context
from .core.context import generator as generator
from .core.cursor import START as START
from .core.cursor import Cursor as Cursor
from .core.cursor import Json as Json
from .core.operator import Columns as Columns
from .core.operator import Grouping as Grouping
from .core.operator import Input as Input
from .core.operator import Operator as Operator
from .core.operator import Order as Order
from .core.operator import Source as Source
from .core.operator import StageView as StageView
from .core.operator import Weights as Weights
from .core.rows import BlockRows as BlockRows
from .core.rows import Indices as Indices
from .core.rows import Rows as Rows
from .databases.driver import KeyRange as KeyRange
from .databases.driver import SqlConnection as SqlConnection
from .databases.driver import SqlDriver as SqlDriver
from .databases.driver import SqlQuery as SqlQuery
from .plan.plan import Plan as Plan
from .plan.plan import Position as Position
from .services.base import Executor as Executor
from .services.base import ReadingService as ReadingService
from .services.base import Session as Session
from .services.base import ShardEnd as ShardEnd
from .services.base import Step as Step

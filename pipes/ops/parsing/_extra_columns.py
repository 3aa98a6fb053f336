"""The columns that rows by position have beside those of their files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.column import Column
from ...formats.tables.table_format import TableFormat


def extra_columns(
    form: TableFormat, paths: Sequence[str], places: npt.NDArray[np.intp], numbers: npt.NDArray[np.int64]
) -> dict[str, Column]:
    """The columns of folders, and those with the path and the number of each row.

    Args:
        form: the format, with names and types fixed.
        paths: of files.
        places: the place among these of the file of each row.
        numbers: of each row in its file.
    """
    import pyarrow as pa

    fixed, lineage = form.require_fixed_schema(paths[0] if paths else ""), form.lineage
    folders = [fixed.constants(path, fixed.file_types) for path in paths]
    columns: dict[str, Column] = {}
    for name, kind in fixed.folder_types.items():
        values: Any = pa.array([values[name].as_py() for values in folders], kind)
        columns[name] = values.take(places)
    if lineage.path_column is not None:
        listed: Any = pa.array(list(paths), pa.string())
        columns[lineage.path_column] = listed.take(places)
    if lineage.row_column is not None:
        columns[lineage.row_column] = numbers
    return columns

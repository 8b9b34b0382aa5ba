"""Results as rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import pandas
    import pyarrow

Row = dict[str, Any]

_SHOWN_ROWS = 10
_SHOWN_COLUMNS = 8


class Table(Sequence[Row]):
    """Rows of one kind, as a sequence of dictionaries that all have the same keys.

    What a row does not have is `None`. `Table` needs no other package; `to_pandas` and `to_arrow`
    make of it what pandas and PyArrow have.

    Attributes:
        columns: Names of the columns, in order.
        about: What holds for all rows, such as the name of the scenario.
        documents: What the rows were made of, nested, in the form of the program's `--json`.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        about: Row | None = None,
        documents: Sequence[Row] = (),
        columns: Sequence[str] = (),
    ) -> None:
        names = dict.fromkeys(columns)
        for row in rows:
            names.update(dict.fromkeys(row))
        self.columns: list[str] = list(names)
        self.about: Row = about or {}
        self.documents: list[Row] = list(documents)
        self._rows: list[Row] = [{name: row.get(name) for name in names} for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        if name not in self.columns:
            raise KeyError(name)
        return [row[name] for row in self._rows]

    def to_arrow(self) -> pyarrow.Table:
        """The same as a table of PyArrow, which has to be installed."""
        import pyarrow

        return pyarrow.table({name: self.column(name) for name in self.columns})

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a DataFrame of pandas, which has to be installed; through Arrow if it is too.

        `about` becomes the `attrs` of the frame.
        """
        import pandas

        try:
            frame = self.to_arrow().to_pandas()
        except ImportError:
            frame = pandas.DataFrame(self._rows, columns=self.columns)
        frame.attrs.update(self.about)
        return frame

    def __repr__(self) -> str:
        shown = self.columns[:_SHOWN_COLUMNS]
        lines = [shown, *([str(row[name]) for name in shown] for row in self._rows[:_SHOWN_ROWS])]
        widths = [max(len(line[at]) for line in lines) for at in range(len(shown))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
            for line in lines
        ]
        text.append(f"[{len(self)} rows x {len(self.columns)} columns]")
        return "\n".join(text)


Result = Union["pandas.DataFrame", Table]
"""A DataFrame where pandas is installed, else a `Table`."""


def result(table: Table, frame: bool | None) -> Result:
    """The table as the caller wants it: `None` is a DataFrame where pandas is installed."""
    if frame is False:
        return table
    try:
        return table.to_pandas()
    except ImportError:
        if frame:
            raise
        return table


def flat(nested: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> Row:
    """Nested dictionaries as one, with dots in the names; `without` names what is left out."""
    row: Row = {}
    for name, value in nested.items():
        if name in without:
            continue
        if isinstance(value, Mapping):
            inner = flat(value, without=without)
            row.update({f"{name}.{key}": inside for key, inside in inner.items()})
        else:
            row[name] = value
    return row

"""Writes `experiments.xlsx`: the experiments as the group kept them, a row each. Run it after changing a row.

A dash becomes a blank cell: the model has no use for that column, or the default will do.
"""

from pathlib import Path

from openpyxl import Workbook
from openpyxl.styles import Font

Cell = str | int | float | None

TABLE = """
DS     DAYTYPE STEPS EPOCHS EMBED HIDDEN ACTIVATION OPTIMIZER LOSS LR BETA1 BETA2 BATCH DROPOUT PATIENCE MODEL
all    all     2      8      -     -     -       -       -            -     -   -       -   -   3   1
all    workday 4      8      -     -     -       -       -            -     -   -       -   -   3   1
user-2 all     3     12     24    48     tanh    adam    crossentropy 0.003 0.9 0.999  64 0.1   3   2
user-5 all     3     20     32    64     tanh    adam    crossentropy 0.003 0.9 0.999  32 0.2   4   2
user-6 workday 4     20     32    64     relu    rmsprop crossentropy 0.002 -   0.99   32 0.2   4   2
user-3 all     3     25     24    48     sigmoid sgd     crossentropy 0.1   0.9 -      32 0.1   4   2
user-5 weekend 3     20     24    48     tanh    adam    mse          0.005 0.9 0.999  32 0.1   4   2
all    all     3     10     32    64     tanh    adam    crossentropy 0.003 0.9 0.999 128 0.2   2   2
user-2 all     3     12     24    48     tanh    adam    crossentropy 0.003 0.9 0.999  64 0.1   3   3
user-5 all     4     15     32    64     tanh    adam    crossentropy 0.004 0.9 0.999  64 0.2   4   3
user-6 workday 4     15     24    48     relu    adam    crossentropy 0.003 0.8 0.99   32 0.1   4   3
user-3 weekend 2     20     24    48     tanh    rmsprop crossentropy 0.003 -   0.99   32 0.1   5   3
all    all     3      7     32    64     tanh    adam    crossentropy 0.005 0.9 0.999 128 0.2   2   3
user-4 all     6     12     24    48     tanh    adam    crossentropy 0.005 0.9 0.999  64 0.1   3   3
"""


def rows() -> list[list[Cell]]:
    """The header and the experiments under it, with numbers as numbers."""
    return [[_cell(word) for word in line.split()] for line in TABLE.strip().splitlines()]


def _cell(word: str) -> Cell:
    if word == "-":
        return None
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def write(path: Path) -> None:
    workbook = Workbook()
    workbook.remove(workbook.worksheets[0])
    sheet = workbook.create_sheet("experiments")
    for row in rows():
        sheet.append(row)
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    sheet.freeze_panes = "A2"
    workbook.save(path)


if __name__ == "__main__":
    write(Path(__file__).resolve().parent / "experiments.xlsx")

"""One value of one parameter, with its exact text. Defined beside the grid that a workload file may hold."""

from shoal.spec.cell import RESERVED, Cell, text_of

__all__ = ["RESERVED", "Cell", "text_of"]

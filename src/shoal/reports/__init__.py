"""Runs as pages for people: one HTML file with charts, in the run's folder. Reads through `api`.

Nothing in a page comes from elsewhere, and nothing in it runs.
"""

from __future__ import annotations

import os

NAME = "report.html"


def write(run: str) -> str:
    """Write the report of a run (id, unique prefix, name or `last`) as it is now; the path of the page.

    May be called again, also while the run goes on: the file is replaced as a whole.
    """
    from shoal.api.views.lookup import run_to_change
    from shoal.api.views.overview import overview
    from shoal.errors import FileError
    from shoal.files import write_text
    from shoal.reports.page import page

    run_to_change(run)
    found = overview(run)
    path = os.path.join(found.info.folder, NAME)
    try:
        write_text(path, page(found), durable=False)
    except OSError as error:
        raise FileError(
            f"{path} cannot be written: {error.strerror or error}.",
            hint="Make room there, or let it be written.",
        ) from error
    return path

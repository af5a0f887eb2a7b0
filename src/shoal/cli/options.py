"""Options that several commands share, so that they are called and explained the same everywhere."""

from __future__ import annotations

import click

cluster_option = click.option(
    "--cluster", metavar="FILE", help="The cluster file that names the nodes; without one, this machine."
)
set_option = click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="Override a value of the file; may be repeated."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout.")
file_argument = click.argument("file", metavar="FILE")
run_argument = click.argument("run", metavar="RUN")
item_argument = click.argument("item", metavar="[ITEM]", required=False)

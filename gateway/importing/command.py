"""The command `headgate import`, which the entry point `import` of `gateway.commands` names."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    nameserver: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Name server of the cluster; several: A;B.")],
    node: Annotated[str, typer.Option(metavar="HOST:PORT", help="Remoting port of the node.")] = "127.0.0.1:10911",
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Its name, when the name server knows several.")] = "",
    key_file: Annotated[str, typer.Option(help="File with NAME:PASSWORD of a Super user of the cluster.")] = "",
    node_key_file: Annotated[str, typer.Option(help="File with NAME:PASSWORD of a Super user of the node.")] = "",
    ca: Annotated[str, typer.Option(help="PEM file: connections to the cluster use TLS.")] = "",
    node_ca: Annotated[str, typer.Option(help="PEM file: connections to the node use TLS.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Copy topics, groups, positions and rights of a RocketMQ cluster to a running node. It can be repeated.

    Example: headgate import 10.0.0.7:9876 --dry-run

    Exit status: 0 everything is at the node, 1 something could not be copied (the table names it), 2 not done.
    """
    from gateway.client.security import KeyPlace, Tls
    from gateway.importing.importing import run

    code = run(
        nameserver.replace(",", ";").split(";"),
        node,
        cluster=cluster,
        key=KeyPlace(key_file) if key_file else None,
        node_key=KeyPlace(node_key_file) if node_key_file else None,
        tls=Tls(ca) if ca else None,
        node_tls=Tls(node_ca) if node_ca else None,
        dry=dry_run,
        as_json=as_json,
        say=typer.echo,
    )
    raise typer.Exit(code)

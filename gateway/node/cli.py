"""The command `headgate`. A wrong option or setting ends it with one line on stderr, exit code 2 and no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from domain.errors import ConfigError, GatewayError
from gateway.cluster.operator.commands import AT, CA, HERE, KEY, asked_controllers, cluster
from gateway.node.options import REPLICAS, GivenOptions, taking_options


class Commands(TyperGroup):
    """Our commands, and those of installed use cases: these are looked for when a name is none of ours, and for the help.

    A server answers at its admin port before most modules are imported; to look for them takes longer than that.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        self._install()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None: there is none."""
        if cmd_name not in self.commands:
            self._install()
        return super().get_command(ctx, cmd_name)

    def _install(self) -> None:
        from gateway.node.entry_points import load_all

        for name, command in load_all("gateway.commands", lambda name: f"command {name!r} cannot be loaded").items():
            alone = typer.Typer(add_completion=False)
            alone.command(name)(command)
            self.commands.setdefault(name, get_command(alone))


app = typer.Typer(
    cls=Commands,
    help="A gateway for RocketMQ, MQTT, CoAP, HTTP, gRPC and CloudEvents with a store of its own.",
    epilog="Example: headgate up --port-offset 1000 --data /var/lib/headgate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
settings = typer.Typer(help="The configuration: what is in force, and which settings there are.", no_args_is_help=True)
app.add_typer(settings, name="config")
app.add_typer(cluster, name="cluster")
aside = typer.Typer(
    help="What a node has set aside instead of deleting it: parts of a replica's log, and damaged files.\n\n"
    "Example: headgate set-aside list ./headgate-data",
    no_args_is_help=True,
)
app.add_typer(aside, name="set-aside")


@app.command()
@partial(taking_options, more={"replicas": REPLICAS})
def up(read: GivenOptions) -> None:
    """Start everything in one process; with --replicas a replicated group on this machine, each replica a process.

    Example: headgate up --data /var/lib/headgate --admin-file /etc/headgate/admin --host 0.0.0.0

    Example of a first try of replication: headgate up --replicas 3

    Exit status: 0 stopped by a signal, 2 an option or a setting is wrong.
    """
    if read.replicas:
        from gateway.runtime.local_group import run

        config = read()
        raise typer.Exit(run(config.data, config.port_offset, read.replicas, typer.echo))
    _serve(read, everything=True)


@app.command()
@taking_options
def run(read: GivenOptions) -> None:
    """Start a process with some of the roles gateway, store, nameserver and controller (--roles).

    Example of a gateway apart from its store: headgate run --roles gateway --store 10.0.0.5:10911

    Example before an Apache cluster: headgate run --roles gateway --store rocketmq://10.0.0.7:9876
    """
    _serve(read, everything=False)


def _serve(read: GivenOptions, everything: bool) -> None:
    from gateway.runtime.compiled import activate

    compiled = activate()
    from gateway.runtime.admin.server import started

    admin = started(read.admin_address())  # before most modules are imported, which takes longer
    try:
        from gateway.node.roles.role_names import ALL
        from gateway.runtime.process import run

        config = read()
        if everything and config.role_set != frozenset(ALL):
            raise ConfigError(f"roles is {config.roles}: headgate up starts all of them; start a part with headgate run")
        raise typer.Exit(run(config, compiled, read, admin))
    finally:
        if admin is not None:
            admin.abandon()


@settings.command("show")
@taking_options
def show(read: GivenOptions) -> None:
    """Print what would be in force, and where each value is from: an option, a variable, a file, or the default.

    Example: headgate config show --config headgate.toml | grep durability
    """
    from gateway.node.composition import known
    from gateway.node.reference import defaults
    from gateway.runtime.machine import hot_bytes

    found = read()
    rows = [*found.rows(), *defaults(found, known(), hot_bytes())]
    width = max(len(name) for name, _, _ in rows)
    middle = max(len(value) for _, value, _ in rows)
    for name, value, source in rows:
        typer.echo(f"{name:<{width}}  {value:<{middle}}  {source}")


@settings.command("reference")
def reference() -> None:
    """Print every setting that there is, as a Markdown page.

    Example: headgate config reference | less
    """
    from gateway.node.composition import known
    from gateway.node.reference import page

    typer.echo(page(known()), nl=False)


DATA = Annotated[str, typer.Argument(metavar="DIR", help="Folder of everything that is kept (--data of the node).")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def check(folder: DATA, as_json: JSON = False) -> None:
    """Check a data directory that no node has open.

    Example: headgate check ./headgate-data

    Exit status: 0 nothing is damaged, 1 something is, 2 not checked.
    """
    from gateway.node.data_directory import offline

    raise typer.Exit(_io(lambda: offline.check(folder, as_json, typer.echo)))


@app.command()
def repair(folder: DATA, as_json: JSON = False) -> None:
    """Set aside what `check` has found, so that the node starts. Nothing is deleted: it is in the folder set-aside.

    Example: headgate repair ./headgate-data

    Exit status: 0 done, 2 it cannot be done.
    """
    from gateway.node.data_directory import offline

    raise typer.Exit(_io(lambda: offline.repair(folder, as_json, typer.echo)))


@aside.command("list")
def list_aside(folder: DATA, as_json: JSON = False) -> None:
    """List what was set aside in a data directory, also while a node runs in it.

    Example: headgate set-aside list ./headgate-data
    """
    from gateway.node.data_directory import set_aside

    raise typer.Exit(_io(lambda: set_aside.list_folders(folder, as_json, typer.echo)))


@aside.command("export")
def export_aside(
    folder: DATA,
    name: Annotated[str, typer.Argument(metavar="FOLDER", help="One of the folders that list shows.")],
    topic: Annotated[str, typer.Option(help="Only messages of this topic.")] = "",
) -> None:
    """Print the messages of a folder that was set aside, a JSON object a line: topic, queue, offset, properties, body (base64).

    A body is as it was sent: with bit 1 of sysFlag set, its sender has compressed it.

    Example: headgate set-aside export ./headgate-data log-24477 --topic orders > orders.jsonl

    Exit status: 0 all were printed, 1 bytes of the folder cannot be read, 2 not done.
    """
    from gateway.node.data_directory import set_aside

    def printed() -> int:
        return set_aside.export(folder, name, topic, typer.echo, lambda text: typer.echo(text, err=True))

    raise typer.Exit(_io(printed))


@cluster.command("renew-controller")
def renew_controller(folder: DATA, at: AT = HERE, key_file: KEY = "", ca: CA = "") -> None:
    """Let a controller whose log is damaged come back as a new member, while a majority of the others works.

    Its node is stopped. The log of the controller is set aside, messages in the same folder stay. Start the node afterwards.

    Example: headgate cluster renew-controller ./headgate-data --controller 10.0.0.5:9878

    Exit status: 0 done, 2 not done.
    """
    from gateway.node.data_directory import offline

    with asked_controllers(at, key_file, ca) as controllers:
        # The one that leads answers with a majority. Without one this log may be all that is known of the store groups.
        controllers.groups()
    raise typer.Exit(_io(lambda: offline.renew_controller(folder, typer.echo)))


@app.command()
def backup(
    target: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of the backups, made when absent.")],
    data: Annotated[str | None, typer.Option(help="Folder of everything that is kept, of a stopped node.")] = None,
    admin: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Admin port of a running node.")] = None,
    user_file: Annotated[str | None, typer.Option(help="File whose first line is NAME:PASSWORD of a Super user.")] = None,
    keep: Annotated[int, typer.Option(min=1, help="Whole backups that are kept.")] = 1,
    as_json: JSON = False,
) -> None:
    """Copy a data directory, while its node runs (--admin, default 127.0.0.1:8088) or when it is stopped (--data).

    A second backup into the same folder copies what is new.

    Example: headgate backup /mnt/backups --keep 7

    Exit status: 0 done and checked, 2 not done.
    """
    from gateway.node.data_directory.backup import backup as run
    from gateway.node.data_directory.plan_source import running, stopped
    from gateway.runtime.copying import FileCopies

    def copied() -> int:
        if data is not None and admin is None:
            return run(Path(target), stopped(data), keep, as_json, typer.echo, FileCopies())
        credentials = _first_line(user_file) if user_file else ""
        source = running(admin or "127.0.0.1:8088", credentials, data)
        return run(Path(target), source, keep, as_json, typer.echo, FileCopies(gentle=True))

    os.nice(10)
    raise typer.Exit(_io(copied))


@app.command()
def restore(
    source: Annotated[str, typer.Argument(metavar="BACKUP", help="A backup, or the folder of backups for the newest one.")],
    data: Annotated[str, typer.Option(help="Empty or absent folder that becomes the data directory.")],
    as_json: JSON = False,
) -> None:
    """Make a data directory from a backup.

    Example: headgate restore /mnt/backups --data ./headgate-data

    Exit status: 0 done and checked, 2 not done.
    """
    from gateway.node.data_directory.restore import restore as run
    from gateway.runtime.copying import FileCopies

    raise typer.Exit(_io(lambda: run(Path(source), Path(data), as_json, typer.echo, FileCopies())))


def _first_line(file: str) -> str:
    lines = Path(file).read_text().splitlines()
    if not lines or ":" not in lines[0]:
        raise ConfigError(f"{file} has no NAME:PASSWORD in its first line")
    return lines[0].strip()


def _io(run: Callable[[], int]) -> int:
    try:
        return run()
    except OSError as error:
        raise ConfigError(f"{error.filename or 'the data directory'} cannot be read or written: {error.strerror}") from error


@app.command()
def version() -> None:
    """Print the version."""
    from importlib import metadata

    typer.echo(f"headgate {metadata.version('headgate')}")


def main() -> None:
    """Entry point of the console script."""
    try:
        code = app(standalone_mode=False, prog_name="headgate")
    except typer.Abort:
        code = 130
    except typer.TyperException as error:
        text, context = error.format_message().rstrip(), getattr(error, "ctx", None)
        if context is not None:
            text += f"{'' if text.endswith(('.', '?')) else '.'} See {context.command_path} --help."
        code = _refuse(text)
    except GatewayError as error:
        code = _refuse(str(error))
    sys.exit(code or 0)


def _refuse(text: str) -> int:
    line = " ".join(text.split())
    print(f"headgate: {line}", file=sys.stderr)
    return 2

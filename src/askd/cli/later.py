"""Commands whose modules are imported only when they are called: those that load the server."""

from importlib import import_module

import typer

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register_later(app: typer.Typer, name: str, where: str, summary: str) -> None:
    """Register a command: a function, or an app of several, that is found as MODULE:NAME. Its options and help are read
    when it is called."""

    @app.command(name, help=summary, context_settings=_PASS_ON, add_help_option=False)
    def call(context: typer.Context) -> None:
        module, _, attribute = where.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, typer.Typer):
            inner = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            inner.command(name)(command)
            command = inner
        typer.main.get_command(command).main(args=context.args, prog_name=context.command_path)

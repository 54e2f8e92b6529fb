"""Commands whose modules are imported only when they are called: those that load the server."""

from importlib import import_module

import typer

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register_later(app: typer.Typer, name: str, module: str, summary: str) -> None:
    """Register the function `name` of a module as a command. Its options and help are read when it is called."""

    @app.command(name, help=summary, context_settings=_PASS_ON, add_help_option=False)
    def call(context: typer.Context) -> None:
        inner = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        inner.command(name)(getattr(import_module(module), name))
        typer.main.get_command(inner).main(args=context.args, prog_name=context.command_path)

"""`circlematch wyoming`: a wake word service for Home Assistant and its satellites."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from circlematch.cli.options import DEFAULT_MODEL, Commands, add_command, print_json, probability
from circlematch.cli.output import logger
from circlematch.errors import UsageError, require

DEFAULT_URI = "tcp://127.0.0.1:10400"


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Serve wake words to Home Assistant and its satellites, by the Wyoming protocol."
    parser = add_command(commands, "wyoming", summary, "circlematch wyoming --models my_models", run)
    parser.add_argument("--uri", default=DEFAULT_URI, help="Where to listen: tcp://HOST:PORT or unix:///PATH.")
    parser.add_argument(
        "--allow-remote", action="store_true", help="Listen beyond this machine; the protocol has no password."
    )
    parser.add_argument(
        "--model",
        nargs="+",
        help=f"Released models' names, model files or folders of runs. (default: {DEFAULT_MODEL} without --models)",
    )
    parser.add_argument(
        "--models", type=Path, metavar="FOLDER", help="Serve every model file in this folder; changes are noticed."
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        help="Report a keyword only when its score reaches this threshold. (default: the model's own)",
    )
    parser.add_argument(
        "--zeroconf", nargs="?", const="circlematch", metavar="NAME", help="Let Home Assistant discover the server."
    )
    parser.add_argument("--health", action="store_true", help="Ask a running server at --uri for its state, and exit.")


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    require("wyoming", extra="wyoming", purpose="circlematch wyoming")
    from circlematch.integrations.wyoming_models import ServedModels
    from circlematch.integrations.wyoming_server import Address, Server, check_health

    address = Address.parse(options.uri)
    if options.health:
        count = asyncio.run(check_health(address))
        print_json({"uri": options.uri, "wake_words": count})
        return 0
    if not address.is_local and not options.allow_remote:
        raise UsageError(
            f"{options.uri} can be reached from other machines, and the protocol has no password; "
            "add --allow-remote if that is meant"
        )
    if options.zeroconf is not None:
        if address.path:
            raise UsageError("--zeroconf announces a TCP address; give --uri tcp://HOST:PORT")
        require("zeroconf", extra="wyoming", purpose="--zeroconf")
    names = options.model or ([] if options.models else [DEFAULT_MODEL])
    models = ServedModels(names, options.models)
    server = Server(models, options.threshold)
    logger.info(f"{len(models.words)} wake words: {', '.join(word.name for word in models.words) or 'none yet'}")

    async def serve() -> None:
        ready = asyncio.Event()
        serving = asyncio.create_task(server.serve(address, ready))
        started = asyncio.create_task(ready.wait())
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if ready.is_set():
            logger.info(f"serving at {options.uri}")
            if options.zeroconf is not None:
                from wyoming.zeroconf import HomeAssistantZeroconf

                host = None if address.host in ("0.0.0.0", "::") else address.host
                announced = HomeAssistantZeroconf(address.port, name=options.zeroconf, host=host)
                await announced.register_server()
        await serving

    asyncio.run(serve())
    return 0

"""`odf system rotate-key` and `rotate-signing-key`: new keys for the node.

For its secrets at rest and for its signatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from odfabric.cli.commands.recovery_commands import settings_on_stores
from odfabric.cli.context import context_of
from odfabric.errors import NotFound

if TYPE_CHECKING:
    from odfabric.settings import Settings

REFUSED = 1


def register(app: typer.Typer) -> None:
    """Add the verb to `odf system`."""
    app.command("rotate-key")(rotate_key)
    app.command("rotate-signing-key")(rotate_signing_key)


def rotate_key(context: typer.Context) -> None:
    """Make a new key, seal all secrets of the node with it, remove the old one.

    Exit code 1 if a secret cannot be opened. The node may run meanwhile. Run it again to complete a rotation that was
    interrupted. Back up the key file before and after.
    """
    from odfabric.wiring import rotate_node_key

    output, settings = context_of(context).output, _settings_of_workspace(context)
    done = rotate_node_key(settings, listener=lambda store, sealed: output.progress(f"{store}: {sealed}"))
    output.clear()
    if output.as_json:
        output.document(done.to_value())
    else:
        if done.resumed:
            output.say("an interrupted rotation goes on")
        left = {one.store for one in done.unopened.values()}
        for store, sealed in done.sealed.items():
            says = f"{sealed} sealed with the new key" if sealed or store in left else "up to date"
            output.result(None, f"{store}: {says}")
        output.result(None, f"old keys removed: {done.keys_dropped}")
        for one in done.unopened.values():
            output.result(None, f"{one.store}, {one.key}: {one.problem}")
    if done.unopened:
        raise typer.Exit(REFUSED)


def rotate_signing_key(context: typer.Context) -> None:
    """Sign webhooks with a new key from now on.

    The node may run meanwhile. The old public key stays in the key set for a while (`signing_keys_kept_days`), its private half is erased.
    """
    from odfabric.wiring import open_node

    with open_node(_settings_of_workspace(context)) as node:
        key = node.webhooks.signature.renew()
    context_of(context).output.result(
        {"ok": True, "keyId": key.id, "madeAt": str(key.made_at)}, f"signing key: {key.id}"
    )


def _settings_of_workspace(context: typer.Context) -> Settings:
    """Raises NotFound if there is no workspace."""
    from odfabric.wiring import is_workspace

    settings = settings_on_stores(context_of(context))
    if not is_workspace(settings):
        raise NotFound("workspace", str(settings.workspace), hint="name it with --workspace")
    return settings

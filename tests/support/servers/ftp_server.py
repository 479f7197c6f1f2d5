"""An FTP server on 127.0.0.1 as a program.

Port, folder, user, password, certificate or `-`, commands that it does not know.
"""

from __future__ import annotations

import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, TLS_FTPHandler
from pyftpdlib.servers import FTPServer


def main(port: str, folder: str, user: str, password: str, certificate: str, *unknown: str) -> None:
    """Serve for ever."""
    authorizer = DummyAuthorizer()
    authorizer.add_user(user, password, folder, perm="elr")
    authorizer.add_anonymous(folder, perm="elr")
    handler = FTPHandler if certificate == "-" else TLS_FTPHandler
    handler.authorizer = authorizer
    handler.proto_cmds = {name: about for name, about in handler.proto_cmds.items() if name not in unknown}
    if certificate != "-":
        handler.certfile = certificate
        handler.tls_control_required = handler.tls_data_required = True
    FTPServer(("127.0.0.1", int(port)), handler).serve_forever()


main(*sys.argv[1:])

"""The engine process: server, sandbox, cluster processes and their commands."""

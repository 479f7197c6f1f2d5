"""gRPC: messages in, messages out, and the calls that run at once."""

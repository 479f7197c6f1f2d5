"""The engine service over gRPC."""

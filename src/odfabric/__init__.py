"""The library of an Open Data Fabric node: model, formats, domain, ports, use cases, adapters."""

__version__ = "0.2.0"

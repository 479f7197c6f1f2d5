"""The library of an Open Data Fabric node: model, formats, domain, ports, use cases, adapters."""

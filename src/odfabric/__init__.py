"""Library of an Open Data Fabric node.

Model, formats, domain, ports, use cases, adapters.
"""

__version__ = "0.2.0"

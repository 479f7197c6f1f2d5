"""The Spark engine service: everything that touches rows, without network or database."""

"""Rows on their way between Arrow and Spark frames."""

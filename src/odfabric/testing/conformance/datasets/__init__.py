"""Suites of ports: datasets: catalog, chains, objects, state indexes."""

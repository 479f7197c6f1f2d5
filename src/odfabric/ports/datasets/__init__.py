"""Ports: datasets: catalog, chains, objects, state indexes."""

"""In SQL: datasets: catalog, chains, objects, state indexes."""

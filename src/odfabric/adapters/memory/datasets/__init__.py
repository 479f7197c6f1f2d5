"""In memory: datasets: catalog, chains, objects, state indexes."""

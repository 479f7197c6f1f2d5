"""Data into root datasets: pushes, uploads, files, their sources."""

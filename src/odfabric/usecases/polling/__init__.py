"""Fetching for polling sources, one module a kind of source.

`usecases.polling.poll_source` takes in what they fetch.
"""

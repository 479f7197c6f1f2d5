"""Manifests that the tests of the verbs share."""

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: readings
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read:
      kind: NdJson
      schema:
        fields:
        - {name: event_time, type: Timestamp}
        - {name: city, type: String}
        - {name: value, type: {kind: Option, inner: Int64}}
    merge: {kind: Append}
"""

POLLED = """
kind: DatasetSnapshot
version: 1
content:
  name: polled
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {kind: FilesGlob, path: 'arrivals/*.ndjson'}
    read:
      kind: NdJson
      schema:
        fields:
        - {name: event_time, type: Timestamp}
        - {name: city, type: String}
    merge: {kind: Ledger, primaryKey: [event_time, city]}
"""

DERIVED = """
kind: DatasetSnapshot
version: 1
content:
  name: copied
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{datasetRef: readings}]
    transform: {kind: Sql, engine: spark, query: SELECT * FROM readings}
"""

"""The datasets of the demo, as a user would write them."""

from __future__ import annotations

FLIGHTS = """\
kind: DatasetSnapshot
version: 1
content:
  name: flights
  kind: Root
  metadata:
  - kind: SetVocab
    eventTimeColumn: time_hour
  - kind: SetPollingSource
    fetch:
      kind: FilesGlob
      path: arrivals/*.zip
    prepare:
    - kind: Decompress
      format: Zip
    read:
      kind: Csv
      header: true
      nullValue: NA
      schema:
        fields:
        - {name: year, type: Int32}
        - {name: month, type: Int32}
        - {name: day, type: Int32}
        - {name: dep_time, type: {kind: Option, inner: Int32}}
        - {name: sched_dep_time, type: Int32}
        - {name: dep_delay, type: {kind: Option, inner: Int32}}
        - {name: arr_time, type: {kind: Option, inner: Int32}}
        - {name: sched_arr_time, type: Int32}
        - {name: arr_delay, type: {kind: Option, inner: Int32}}
        - {name: carrier, type: String}
        - {name: flight, type: Int32}
        - {name: tailnum, type: {kind: Option, inner: String}}
        - {name: origin, type: String}
        - {name: dest, type: String}
        - {name: air_time, type: {kind: Option, inner: Int32}}
        - {name: distance, type: Int32}
        - {name: hour, type: Int32}
        - {name: minute, type: Int32}
        - {name: time_hour, type: Timestamp}
    merge:
      kind: Ledger
      primaryKey: [time_hour, carrier, flight]
  - kind: SetInfo
    description: All flights that left New York City in 2013
    keywords: [flights, nyc]
"""

WEATHER = """\
kind: DatasetSnapshot
version: 1
content:
  name: weather
  kind: Root
  metadata:
  - kind: SetVocab
    eventTimeColumn: time_hour
  - kind: AddPushSource
    sourceName: default
    read:
      kind: Csv
      header: true
      nullValue: NA
      schema:
        fields:
        - {name: origin, type: String}
        - {name: year, type: Int32}
        - {name: month, type: Int32}
        - {name: day, type: Int32}
        - {name: hour, type: Int32}
        - {name: temp, type: {kind: Option, inner: Float64}}
        - {name: dewp, type: {kind: Option, inner: Float64}}
        - {name: humid, type: {kind: Option, inner: Float64}}
        - {name: wind_dir, type: {kind: Option, inner: Int32}}
        - {name: wind_speed, type: {kind: Option, inner: Float64}}
        - {name: wind_gust, type: {kind: Option, inner: Float64}}
        - {name: precip, type: {kind: Option, inner: Float64}}
        - {name: pressure, type: {kind: Option, inner: Float64}}
        - {name: visib, type: {kind: Option, inner: Float64}}
        - {name: time_hour, type: Timestamp}
    merge:
      kind: Ledger
      primaryKey: [origin, time_hour]
"""

PLANES = """\
kind: DatasetSnapshot
version: 1
content:
  name: planes
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read:
      kind: Csv
      header: true
      nullValue: NA
      schema:
        fields:
        - {name: tailnum, type: String}
        - {name: year, type: {kind: Option, inner: Int32}}
        - {name: type, type: String}
        - {name: manufacturer, type: String}
        - {name: model, type: String}
        - {name: engines, type: Int32}
        - {name: seats, type: Int32}
        - {name: speed, type: {kind: Option, inner: Int32}}
        - {name: engine, type: String}
    merge:
      kind: Snapshot
      primaryKey: [tailnum]
"""

FLIGHTS_HOURLY = """\
kind: DatasetSnapshot
version: 1
content:
  name: flights.hourly
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs:
    - datasetRef: flights
    transform:
      kind: Sql
      engine: spark
      query: |
        SELECT
          window(time_hour, '1 hour').start AS event_time,
          origin,
          count(*) AS flights,
          avg(dep_delay) AS mean_delay,
          sum(CASE WHEN dep_time IS NULL THEN 1 ELSE 0 END) AS cancelled
        FROM flights
        GROUP BY window(time_hour, '1 hour'), origin
"""

FLIGHTS_DAILY = """\
kind: DatasetSnapshot
version: 1
content:
  name: flights.daily
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs:
    - datasetRef: flights.hourly
    transform:
      kind: Sql
      engine: spark
      query: |
        SELECT
          window(event_time, '1 day').start AS event_time,
          origin,
          sum(flights) AS flights,
          sum(cancelled) AS cancelled,
          max(mean_delay) AS worst_hour
        FROM `flights.hourly`
        GROUP BY window(event_time, '1 day'), origin
"""

ALL = {
    "flights": FLIGHTS,
    "weather": WEATHER,
    "planes": PLANES,
    "flights.hourly": FLIGHTS_HOURLY,
    "flights.daily": FLIGHTS_DAILY,
}

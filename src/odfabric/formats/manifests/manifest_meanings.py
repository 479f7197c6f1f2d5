"""What each member of a manifest means, and what an absent one stands for.

Owns the words that the JSON Schema of manifests shows in editors and on the page of manifests. Invariant: every member of every definition
has a meaning here; a test compares them. A default is named only where it is one value; others are reported in the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "DatasetSnapshot": {
        "name": "Name of the new dataset, `name` or `account/name`: letters, digits, `.`, `-` and `_`",
        "kind": "`Root` takes data in, `Derivative` is computed",
        "metadata": "First events of the chain, in any order that the rules of a chain admit",
    },
    "MetadataBlock": {
        "systemTime": "When the node wrote the block",
        "prevBlockHash": "Hash of the block before; absent in the first one",
        "sequenceNumber": "Place in the chain, from 0",
        "event": "What happened",
    },
    "AddData": {
        "prevCheckpoint": "Physical hash of the checkpoint before",
        "prevOffset": "Last offset before this event; absent before the first data",
        "newData": "The slice that was added; absent if only watermark, checkpoint or source state moved",
        "newCheckpoint": "The checkpoint that was added",
        "newWatermark": "Watermark from here on",
        "newSourceState": "How far the source has been read",
        "extra": "Attributes of extensions, such as hashes of idempotency keys",
    },
    "ExecuteTransform": {
        "queryInputs": "What was read of each input, in the order of the transform",
        "prevCheckpoint": "Physical hash of the checkpoint before",
        "prevOffset": "Last offset before this event; absent before the first data",
        "newData": "The slice that came out; absent if no row did",
        "newCheckpoint": "The engine's state after this transaction",
        "newWatermark": "Watermark from here on",
    },
    "ExecuteTransformInput": {
        "datasetId": "Identity of the input",
        "prevBlockHash": "Last block that an earlier transaction has read",
        "newBlockHash": "Last block that this one has read; absent if there was no new one",
        "prevOffset": "Last offset that an earlier transaction has read",
        "newOffset": "Last offset that this one has read; absent if there was no new one",
    },
    "Seed": {
        "datasetId": "Identity of the dataset, a DID made of its public key",
        "datasetKind": "`Root` or `Derivative`, for ever",
    },
    "SetPollingSource": {
        "fetch": "Where the data come from",
        "prepare": "Steps between fetching and reading, such as decompression",
        "read": "Format of the data",
        "preprocess": "SQL over the rows that were read, a table named `input`",
        "merge": "How rows become events of the changelog",
    },
    "SetTransform": {
        "inputs": "Datasets that the query reads",
        "transform": "The query",
    },
    "SetVocab": {
        "offsetColumn": "Name of the column with the offset",
        "operationTypeColumn": "Name of the column with the kind of change",
        "systemTimeColumn": "Name of the column with the time of the commit",
        "eventTimeColumn": "Name of the column that says when something happened",
    },
    "SetAttachments": {
        "attachments": "The documents; they replace earlier ones",
    },
    "SetInfo": {
        "description": "One line about the dataset",
        "keywords": "Words by which it is found",
    },
    "SetLicense": {
        "shortName": "Abbreviation, such as `CC-BY-4.0`",
        "name": "Full name",
        "spdxId": "Identifier in the SPDX list of licences",
        "websiteUrl": "Where the text of the licence is",
    },
    "SetDataSchema": {
        "rawArrowSchema": "The schema as Arrow's bytes; older chains have it, write `schema`",
        "schema": "Columns of the dataset, system columns included",
    },
    "AddPushSource": {
        "sourceName": "Name that pushes choose the source by; `default` is usual",
        "read": "Format of the data",
        "preprocess": "SQL over the rows that were read, a table named `input`",
        "merge": "How rows become events of the changelog",
    },
    "DisablePushSource": {
        "sourceName": "Name of the source; this node refuses the event for now",
    },
    "OffsetInterval": {
        "start": "First offset",
        "end": "Last offset, included",
    },
    "DataSlice": {
        "logicalHash": "Hash of the rows by value",
        "physicalHash": "Hash of the bytes of the file, which names it",
        "offsetInterval": "Offsets of the rows",
        "size": "Bytes of the file",
    },
    "Checkpoint": {
        "physicalHash": "Hash of the bytes of the file, which names it",
        "size": "Bytes of the file",
    },
    "SourceState": {
        "sourceName": "Source that it belongs to",
        "kind": "How to read the value: `odf/etag` or `odf/last-modified`",
        "value": "Where the source has got to",
    },
    "TransformInput": {
        "datasetRef": "Name or identity of the dataset; the chain keeps the identity",
        "alias": "Name of its table in the query; default: the name in `datasetRef`",
    },
    "TransformSql": {
        "engine": "Engine that runs it, `spark` on this node",
        "version": "Version of the engine that is asked for; only other engines look at it",
        "query": "The query, if it is a single one; instead of `queries`",
        "queries": "Steps of the query, each but the last with an alias that later steps read",
        "temporalTables": "Inputs or steps that are looked up as they were at a row's event time",
    },
    "SqlQueryStep": {
        "alias": "Name by which later steps read the result; the last step has none",
        "query": "One SQL query",
    },
    "TemporalTable": {
        "name": "Alias of the input or step",
        "primaryKey": "Columns that identify what the versions are of",
    },
    "AttachmentEmbedded": {
        "path": "File name, such as `README.md`",
        "content": "Text of the document",
    },
    "AttachmentsEmbedded": {
        "items": "The documents",
    },
    "FetchStepUrl": {
        "url": "`https://...`, `http://...`, or `file://...` of a file that the node may read",
        "eventTime": "Event time of rows that have none; default: `Last-Modified` if the answer was told apart by it, else the time of the pull",
        "cache": "Kept in the chain and not used: the node asks for changes by `ETag` and `Last-Modified`",
        "headers": "Headers of the request; the chain shows their values to all who may read the dataset",
    },
    "FetchStepFilesGlob": {
        "path": "Pattern of file names, such as `arrivals/*.csv.gz`, below the node's `poll_folder`",
        "eventTime": "Event time of rows that have none; default: the time of the pull",
        "cache": "Kept in the chain and not used",
        "order": "Order of the files; this node reads by name",
    },
    "FetchStepContainer": {
        "image": "Image that gives the data; this node runs no containers",
        "command": "Command instead of the entry point of the image",
        "args": "Arguments of the command",
        "env": "Environment variables of the container",
    },
    "FetchStepMqtt": {
        "host": "Broker; this node does not read MQTT",
        "port": "Port of the broker",
        "username": "Name to sign in with",
        "password": "Password to sign in with",
        "topics": "Topics to subscribe to",
    },
    "FetchStepEthereumLogs": {
        "chainId": "Number of the chain; this node does not read Ethereum",
        "nodeUrl": "Address of an Ethereum node",
        "filter": "Condition on the logs",
        "signature": "Solidity signature of the event",
    },
    "EventTimeSourceFromPath": {
        "pattern": "Regular expression over the file name; its first group is the time",
        "timestampFormat": "Format of that time, as of `strptime`",
    },
    "RequestHeader": {
        "name": "Name of the header",
        "value": "Its value; templates such as `${{ env.NAME }}` are refused",
    },
    "EnvVar": {
        "name": "Name of the variable",
        "value": "Its value",
    },
    "MqttTopicSubscription": {
        "path": "Topic",
        "qos": "Promise of delivery",
    },
    "PrepStepDecompress": {
        "format": "How the file is packed",
        "subPath": "Entry of a ZIP archive; default: the first one",
    },
    "PrepStepPipe": {
        "command": "Command and arguments; this node runs no commands",
    },
    "ReadStepCsv": {
        "ddlSchema": "Columns as SQL texts, `name TYPE`; older form of `schema`",
        "separator": "Character between cells",
        "encoding": "Encoding of the file, such as `utf-8`, `utf-16`, `iso-8859-1` or `cp1252`",
        "quote": "Character around cells; an empty text means none",
        "escape": "Character before a quote in a cell; an empty text means none",
        "header": "Whether the first line names the columns",
        "inferSchema": "Whether types are guessed from the data if there is no schema; otherwise all columns are texts",
        "nullValue": "Text of a cell that means null; default: an empty cell",
        "dateFormat": "`rfc3339`, or a format with directives such as `%d.%m.%Y`",
        "timestampFormat": "`rfc3339`, or a format with directives such as `%d.%m.%Y %H:%M`",
        "schema": "Columns and their types; default: see `inferSchema`",
    },
    "ReadStepGeoJson": {
        "ddlSchema": "Columns as SQL texts; older form of `schema`",
        "schema": "Properties of features and `geometry`, a String; default: guessed from the data",
    },
    "ReadStepEsriShapefile": {
        "ddlSchema": "Columns as SQL texts; older form of `schema`",
        "subPath": "The `.shp` in the archive, or a pattern such as `*/roads.shp`; default: the only one",
        "schema": "Attributes and `geometry`, a String; default: what the table of attributes declares",
    },
    "ReadStepParquet": {
        "ddlSchema": "Columns as SQL texts; older form of `schema`",
        "schema": "Columns and their types; default: those of the file",
    },
    "ReadStepJson": {
        "subPath": "Members that lead to the list of rows, `data.items`; default: the document is the list",
        "ddlSchema": "Columns as SQL texts, `name TYPE`; older form of `schema`",
        "dateFormat": "`rfc3339`, or a format with directives such as `%d.%m.%Y`",
        "encoding": "Encoding of the file",
        "timestampFormat": "`rfc3339`, or a format with directives",
        "schema": "Columns and their types; default: guessed from the data",
    },
    "ReadStepNdJson": {
        "ddlSchema": "Columns as SQL texts, `name TYPE`; older form of `schema`",
        "dateFormat": "`rfc3339`, or a format with directives such as `%d.%m.%Y`",
        "encoding": "Encoding of the file",
        "timestampFormat": "`rfc3339`, or a format with directives",
        "schema": "Columns and their types; default: guessed from the data",
    },
    "ReadStepNdGeoJson": {
        "ddlSchema": "Columns as SQL texts; older form of `schema`",
        "schema": "Properties of features and `geometry`, a String; default: guessed from the data",
    },
    "MergeStrategyLedger": {
        "primaryKey": "Columns that identify a row; a row whose key is known adds nothing",
    },
    "MergeStrategySnapshot": {
        "primaryKey": "Columns that identify a row",
        "compareColumns": "Columns whose difference is a change; default: all but the key",
    },
    "MergeStrategyChangelogStream": {
        "primaryKey": "Columns that identify a row",
    },
    "MergeStrategyUpsertStream": {
        "primaryKey": "Columns that identify a row",
    },
    "DataSchema": {
        "fields": "Columns in order",
        "extra": "Attributes of extensions",
    },
    "DataField": {
        "name": "Name of the column or member",
        "type": "Its type; a type without required members may be written as its bare name",
        "extra": "Attributes of extensions; `odfabric.dev/type: {kind: Json}` on a String keeps JSON values as text",
    },
    "DataTypeBinary": {
        "fixedLength": "Bytes of every value; default: any number",
    },
    "DataTypeDecimal": {
        "precision": "Digits, at most 38 on this node",
        "scale": "Digits behind the point",
    },
    "DataTypeDuration": {
        "unit": "Resolution",
    },
    "DataTypeList": {
        "itemType": "Type of the elements",
        "fixedLength": "Elements of every list; default: any number",
    },
    "DataTypeMap": {
        "keyType": "Type of the keys",
        "valueType": "Type of the values",
        "keysSorted": "Whether keys come in order",
    },
    "DataTypeOption": {
        "inner": "The type without null",
    },
    "DataTypeStruct": {
        "fields": "Members in order",
    },
    "DataTypeTime": {
        "unit": "Resolution",
    },
    "DataTypeTimestamp": {
        "unit": "Resolution",
        "timezone": "Zone of the times",
    },
}
"""Definition -> member -> its meaning."""

DEFAULTS: Mapping[str, Mapping[str, str | bool]] = {
    "SetVocab": {
        "offsetColumn": "offset",
        "operationTypeColumn": "op",
        "systemTimeColumn": "system_time",
        "eventTimeColumn": "event_time",
    },
    "EventTimeSourceFromPath": {"timestampFormat": "%Y-%m-%d"},
    "ReadStepCsv": {
        "separator": ",",
        "encoding": "utf8",
        "quote": '"',
        "escape": "\\",
        "header": False,
        "inferSchema": False,
        "dateFormat": "rfc3339",
        "timestampFormat": "rfc3339",
    },
    "ReadStepJson": {"dateFormat": "rfc3339", "encoding": "utf8", "timestampFormat": "rfc3339"},
    "ReadStepNdJson": {"dateFormat": "rfc3339", "encoding": "utf8", "timestampFormat": "rfc3339"},
    "DataTypeDuration": {"unit": "Millisecond"},
    "DataTypeMap": {"keysSorted": False},
    "DataTypeTime": {"unit": "Millisecond"},
    "DataTypeTimestamp": {"unit": "Millisecond", "timezone": "UTC"},
}
"""Definition -> member -> what its absence means."""

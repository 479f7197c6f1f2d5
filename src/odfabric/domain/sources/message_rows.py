"""Messages as rows: one JSON document becomes one line of NDJSON.

Owns which payloads are rows, and the name under which a dataset is known to its broker. Invariant: the text of a value is never changed;
line ends, which JSON has between tokens only, become blanks. Source: specification, "Data Ingestion".
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator

from odfabric.errors import InvalidData, InvalidManifest, Place
from odfabric.model.identity import DatasetId
from odfabric.model.source import FetchStepMqtt, ReadStep, ReadStepNdGeoJson, ReadStepNdJson

CLIENT_ID_CHARACTERS = 23
"""Every broker of MQTT 3.1.1 takes client ids up to this length, of letters and digits."""
_PREFIX = "odf"
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
_TOPIC_BYTES_MAX = 65_535
_WHITE = b" \t\r\n"


def mqtt_client_id(dataset: DatasetId) -> str:
    """The client id under which the broker keeps the session of a dataset.

    The same for ever, another for each dataset.
    """
    digest = hashlib.sha256(str(dataset).encode()).digest()
    return _PREFIX + base64.b32encode(digest).decode().lower()[: CLIENT_ID_CHARACTERS - len(_PREFIX)]


def message_line(payload: bytes, *, topic: str, client_id: str) -> bytes | None:
    """The line of a message without its end, or None for an empty message.

    Raises InvalidData for what is no JSON document.
    """
    if not payload.strip(_WHITE):
        return None
    try:
        json.loads(payload.decode("utf-8"), parse_int=str, parse_float=str)
    except UnicodeDecodeError:
        problem = "is not UTF-8"
    except ValueError as error:
        problem = f"is not a JSON document: {error}"
    except RecursionError:
        problem = "is nested too deeply"
    else:
        return payload.strip(_WHITE).translate(_LINE_ENDS)
    raise InvalidData(
        f"a message of topic {topic[:200]!r} {problem}",
        place=Place(field="fetch.topics"),
        hint="a message is one JSON object; this one comes again until the broker drops it: correct its publisher, "
        f"then remove the session of client {client_id} at the broker, or take the topic out of the source",
    )


def refused_messages(step: FetchStepMqtt, read: ReadStep) -> Iterator[tuple[str, str, str]]:
    """What never works in a source of messages: field, problem, and correction."""
    if not isinstance(read, ReadStepNdJson | ReadStepNdGeoJson):
        yield "read.kind", "messages are read as one JSON document a line", "write kind: NdJson (or NdGeoJson)"
    if not step.host:
        yield "fetch.host", "no host is named", "write the name of the broker's host"
    if not step.topics:
        yield "fetch.topics", "no topic is named", "write - path: sensors/#"
    for number, topic in enumerate(step.topics):
        problem = _topic_problem(topic.path)
        if problem is not None:
            shown = f"topic {topic.path[:200]!r} {problem}"
            yield f"fetch.topics[{number}].path", shown, "for example sensors/+/temperature or sensors/#"


def check_messages(step: FetchStepMqtt, read: ReadStep) -> None:
    """Raises InvalidManifest for the first of `refused_messages`."""
    for field, problem, hint in refused_messages(step, read):
        raise InvalidManifest(problem, place=Place(field=field), hint=hint)


def _topic_problem(topic: str) -> str | None:
    """Why no broker takes a topic filter: MQTT 3.1.1, section 4.7."""
    levels = topic.split("/")
    if not topic or "\0" in topic or len(topic.encode("utf-8", "surrogatepass")) > _TOPIC_BYTES_MAX:
        return "is empty, too long or holds a NUL"
    if "#" in topic and (topic.count("#") > 1 or levels[-1] != "#"):
        return "has a # that is not its last level"
    if any("+" in level and level != "+" for level in levels):
        return "has a + that is not a whole level"
    return None

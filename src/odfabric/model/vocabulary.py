"""Names of the system columns of a dataset (SetVocab with defaults filled)."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.metadata import SetVocab


@dataclass(frozen=True, slots=True)
class DatasetVocabulary:
    """The four system column names in the order in which slices hold them."""

    offset: str = "offset"
    operation_type: str = "op"
    system_time: str = "system_time"
    event_time: str = "event_time"

    @classmethod
    def from_event(cls, event: SetVocab | None) -> DatasetVocabulary:
        """A SetVocab replaces the whole vocabulary: its absent members mean the defaults."""
        if event is None:
            return cls()
        default = cls()
        return cls(
            offset=event.offset_column or default.offset,
            operation_type=event.operation_type_column or default.operation_type,
            system_time=event.system_time_column or default.system_time,
            event_time=event.event_time_column or default.event_time,
        )

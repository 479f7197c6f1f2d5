"""Operation types of records, as stored in the `op` column (Int32).

Source: RFC-015.
"""

from enum import IntEnum


class OperationType(IntEnum):
    """What a record does to the relation that the changelog describes."""

    APPEND = 0
    RETRACT = 1
    CORRECT_FROM = 2
    CORRECT_TO = 3

    @property
    def word(self) -> str:
        """The word used in subscription payloads, tables and pages."""
        return self.name.lower()

"""Ad-hoc SQL: judged, pinned to blocks, answered as documents."""

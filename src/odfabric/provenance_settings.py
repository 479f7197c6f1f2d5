"""Settings of provenance: limits of one answer to why records are there.

Owns names, defaults and descriptions; `odfabric.settings` has the rest of the table and is the place to read it from.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class ProvenanceSettings(BaseSettings):
    """Limits of provenance."""

    provenance_rows_max: int = Field(
        5_000_000, ge=1, description="Most rows of its inputs that one derivation of provenance reads"
    )
    provenance_evaluations_max: int = Field(
        2000,
        ge=1,
        description="Most sets of records over which a query runs to check one derivation of provenance, one for each started 5,000 records",
    )
    provenance_records_max: int = Field(1000, ge=1, description="Most records that one answer on provenance visits")
    provenance_depth_max: int = Field(
        20, ge=1, description="Most datasets in a row that provenance is followed through"
    )
    provenance_wall_s_max: float = Field(60.0, gt=0, description="Longest run of one answer on provenance")
    provenance_wait_s_max: float = Field(
        10.0, ge=0, description="How long a question on provenance is worked on before it becomes a job (202)"
    )
    provenance_long_s: float = Field(
        600.0,
        ge=0,
        description="After a question on provenance took too long to wait for, others like it become jobs at once for so many seconds",
    )
    provenance_job_wall_s_max: float = Field(
        600.0, gt=0, description="Longest run of one answer on provenance in a job"
    )
    provenance_peers_max: int = Field(
        5, ge=0, description="Questions to other nodes for one answer on provenance; 0 = no node is asked"
    )
    provenance_peer_hops_max: int = Field(
        3, ge=1, le=100, description="Nodes in a row that pass a question on provenance on"
    )
    provenance_peer_s_max: float = Field(
        20.0, gt=0, description="Longest wait for all other nodes together, for one answer on provenance"
    )
    provenance_peer_job_s_max: float = Field(
        60.0,
        ge=0,
        description="Longest wait for jobs of other nodes together, where a question on provenance takes long there; 0 = a job is not waited for",
    )
    provenance_peer_bytes_max: int = Field(
        4 * 1024 * 1024, ge=1024, description="Largest answer on provenance that is read from another node"
    )
    provenance_answer_bytes_max: int = Field(
        16 * 1024 * 1024, ge=1, description="Largest answer on provenance that a job keeps"
    )

"""Checks of the workspace: usable, with room, secrets unreadable for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.model.node.finding import Finding, Outcome
from odfabric.model.node.surroundings import DiskState, FileState
from odfabric.ports.node.surroundings import WorkspaceProbe
from odfabric.usecases.doctor.diagnose import Check

MIB = 1024 * 1024
GROUP_AND_OTHERS = 0o077
OTHERS_WRITE = 0o022
INODES_MIN = 1000
"""Files that the node needs for its own work before an object is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomLimits:
    """With less than `free_mib_min` free the disk counts as full.

    Below the share there is a warning. The share is that of inodes, too.
    """

    free_mib_min: int
    free_share_min: float


def workspace_checks(probe: WorkspaceProbe, *, path: str, limits: RoomLimits) -> Sequence[Check]:
    """`path` is the folder as people write it."""
    place = f"the folder {path}"
    return [
        Check("workspace", lambda: _folder(probe, path), f"`odf init` makes {place}; ODF_WORKSPACE names another"),
        Check("disk", lambda: _disk(probe.disk(), limits), f"look whether the disk of {place} is mounted"),
        Check("secret-files", lambda: _secrets(probe, path), f"make {place} readable for the user of the node"),
    ]


def _folder(probe: WorkspaceProbe, path: str) -> Sequence[Finding]:
    folder = probe.folder()
    probe.try_write()
    if not folder.is_own:
        return [
            _finding(
                "workspace",
                Outcome.WARNING,
                "another user owns the folder",
                f"run this as that user, or chown -R $(id -u) {path}",
            )
        ]
    if folder.mode & OTHERS_WRITE:
        return [
            _finding("workspace", Outcome.BROKEN, f"others may write to it (mode {folder.mode:o})", f"chmod 700 {path}")
        ]
    return [_finding("workspace", Outcome.OK, f"{path}, mode {folder.mode:o}, can be written")]


def _disk(disk: DiskState, limits: RoomLimits) -> Sequence[Finding]:
    seen = f"{disk.free_bytes // MIB} MiB of {disk.all_bytes // MIB} MiB free"
    outcome = _room(disk.free_bytes, disk.all_bytes, limits, least=limits.free_mib_min * MIB)
    remedy = "make room or enlarge the disk; `odf system collect` removes objects that no dataset has"
    space = _finding("disk", outcome, seen, remedy)
    if disk.inodes == 0:
        return [space, _finding("inodes", Outcome.OK, "the file system has no fixed number of them")]
    outcome = _room(disk.free_inodes, disk.inodes, limits, least=INODES_MIN)
    remedy = "remove small files from this disk, or move the workspace to one with more inodes (`df -i`)"
    return [space, _finding("inodes", outcome, f"{disk.free_inodes} of {disk.inodes} free", remedy)]


def _room(free: int, of: int, limits: RoomLimits, *, least: int) -> Outcome:
    if free < least:
        return Outcome.BROKEN
    return Outcome.WARNING if free < limits.free_share_min * of else Outcome.OK


def _secrets(probe: WorkspaceProbe, path: str) -> Sequence[Finding]:
    files = probe.secrets()
    open_files = [file for file in files if file.mode & GROUP_AND_OTHERS]
    if open_files:
        modes = ", ".join(f"{file.name} (mode {file.mode:o})" for file in open_files)
        names = " ".join(f"{path}/{file.name}" for file in open_files)
        return [_finding("secret-files", Outcome.BROKEN, f"others may read {modes}", f"chmod 600 {names}")]
    closed = [file for file in files if not file.is_readable]
    if closed:
        seen = f"this user cannot read {_names(closed)}"
        return [
            _finding("secret-files", Outcome.BROKEN, seen, f"run as the user of the node, or chown -R $(id -u) {path}")
        ]
    return [_finding("secret-files", Outcome.OK, f"for their owner alone: {_names(files) or 'none yet'}")]


def _names(files: Sequence[FileState]) -> str:
    return ", ".join(file.name for file in files)


def _finding(name: str, outcome: Outcome, seen: str, remedy: str | None = None) -> Finding:
    return Finding(name=name, outcome=outcome, seen=seen, remedy=None if outcome is Outcome.OK else remedy)

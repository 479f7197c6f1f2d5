"""Tasks that go on after their job has ended.

Owns finding them, whichever machine they run on. Spark asks a task to stop, and most do; one that loops in compiled code (a join
without keys, a regular expression that backtracks) never looks, and keeps its core for as long as it likes. Not here: what is done
about it (`calls`).
"""

from __future__ import annotations

from pyspark import SparkContext


def has_leftover_tasks(context: SparkContext, group: str) -> bool:
    """Whether a task runs that belongs to the ended job group, or to no active stage.

    The second covers jobs that ended by an error beside a sibling task. Spark's lists lag a moment behind: ask again before
    acting on the answer.
    """
    stages = _stages_at_work(context)
    if not stages:
        return (
            False  # the usual case, and most calls that fail never started a task: the rest of the question costs more
        )
    tracker = context.statusTracker()
    active_jobs = set(tracker.getActiveJobsIds())
    if active_jobs.intersection(tracker.getJobIdsForGroup(group)):
        return True
    return not stages <= set(tracker.getActiveStageIds())


def _stages_at_work(context: SparkContext) -> frozenset[int]:
    """The stages of tasks of which the scheduler knows; one that was asked to stop counts until it has."""
    found = set()
    for tasks in context._jsc.sc().taskScheduler().taskIdToTaskSetManager().values():
        found.add(int(tasks.taskSet().stageId()))
    return frozenset(found)

"""Tasks that go on after their job has ended.

Owns finding them. Spark asks a task to stop, and most do; one that loops in compiled code (a join without keys, a regular
expression that backtracks) never looks, and keeps its core for as long as it likes. Not here: what is done about it (`running_calls`).
"""

from __future__ import annotations

import re

from pyspark import SparkContext

_TASK_THREAD = re.compile(r"Executor task launch worker for task .* in stage (\d+)\.\d+ ")
_AT_WORK = "org.apache.spark.executor.Executor$TaskRunner.run("
_HERE = "local"
_LOWEST_FRAMES = 8
"""Below a task's own frame lie those of the pool and the thread."""


def has_leftover_tasks(context: SparkContext, group: str) -> bool:
    """Whether a task runs that belongs to the ended job group, or to no active stage.

    The second covers jobs that ended by an error beside a sibling task. Spark's lists lag a moment behind: ask again before
    acting on the answer.
    """
    if not _running_tasks(context):
        return (
            False  # the usual case, and most calls that fail never started a task: the rest of the question costs 50 ms
        )
    tracker = context.statusTracker()
    active_jobs = set(tracker.getActiveJobsIds())
    if active_jobs.intersection(tracker.getJobIdsForGroup(group)):
        return True
    active_stages = set(tracker.getActiveStageIds())
    return any(stage not in active_stages for stage in _stages_at_work(context))


def _running_tasks(context: SparkContext) -> int:
    """How many tasks the scheduler knows of.

    One that was asked to stop counts until it has.
    """
    by_executor = context._jsc.sc().taskScheduler().runningTasksByExecutors().valuesIterator()
    running = 0
    while by_executor.hasNext():
        running += int(by_executor.next())
    return running


def _stages_at_work(context: SparkContext) -> list[int]:
    """The stages of tasks that run now, in this process or on executors of a cluster."""
    if not str(context.master).startswith(_HERE):
        tasks = context._jsc.sc().taskScheduler().taskIdToTaskSetManager().values()
        return [int(each.taskSet().stageId()) for each in tasks]
    return _stages_of_threads(context)


def _stages_of_threads(context: SparkContext) -> list[int]:
    """Stages of threads by stacks: idle pool threads keep their last task's name."""
    jvm = context._jvm
    assert jvm is not None
    found = []
    for entry in jvm.java.lang.Thread.getAllStackTraces().entrySet():
        named = _TASK_THREAD.match(str(entry.getKey().getName()))
        if named is not None and any(_AT_WORK in str(frame.toString()) for frame in entry.getValue()[-_LOWEST_FRAMES:]):
            found.append(int(named[1]))
    return found

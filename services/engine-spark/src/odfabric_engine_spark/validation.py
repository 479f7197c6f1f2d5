"""The operation ValidateQuery: what a transform is, or everything that is wrong with it and what to write instead.

Owns what is said around the judgement: inputs described by DDL, the operators of what passed, a translation of what was written
for another engine, and what replacing a transform means. Invariant: nothing here decides what can run - that is the judgement
which transactions go through as well (`incremental.judge`) - and a translation is told only if it passes that judgement.
Source: semantics of transforms, section 7.
"""

from __future__ import annotations

from dataclasses import replace

from odfabric.errors import LimitExceeded, OdfError
from odfabric.model.engine import QueryInput, QueryProblem, ValidateRequest, ValidateResult
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.incremental.judge import validate_query
from odfabric_engine_spark.validate.input_columns import ddl_schema, with_system_columns


def judge_query(request: ValidateRequest, call: EngineCall) -> ValidateResult:
    """Judges a transform without data. Raises LimitExceeded."""
    try:
        request = replace(request, inputs=tuple(_described(one, call) for one in request.inputs))
    except LimitExceeded:
        raise
    except OdfError as error:
        return _refused(error)
    return validate_query(request, call)


def _described(one: QueryInput, call: EngineCall) -> QueryInput:
    schema = one.data_schema
    if one.ddl is not None:
        schema = ddl_schema(call.session, one.ddl, one.alias, settings=call.settings)
    return one if schema is None else replace(one, data_schema=with_system_columns(schema, one.vocabulary), ddl=None)


def _refused(error: OdfError) -> ValidateResult:
    place = error.place
    problem = QueryProblem(
        rule=place.rule or error.code,
        message=error.message,
        hint=error.hint,
        step=0,
        line=place.line,
        column=place.column,
    )
    return ValidateResult(problems=(problem,), data_schema=None, operator_class=None, keys=())

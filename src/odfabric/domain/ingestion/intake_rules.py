"""Rules of a source, beside the columns that it declares.

Owns the attributes of a declared schema by which an owner says what becomes of fields without a column, of rows that cannot be read, and of
files that withdraw most of a Snapshot. They stand in the manifest and in the chain, so they go wherever the dataset goes, and
`set-source` changes them:

```yaml
read:
  kind: NdJson
  schema:
    fields: [{ name: id, type: Int64 }]
    extra:
      odfabric.dev/contract: freeze
      odfabric.dev/wrong-rows: quarantine
      odfabric.dev/shrink-max: 0.5
```

Invariant: other attributes mean nothing here and are kept as they are; one of ours that says nothing we know is refused when it is declared.
Source: ADR 0066.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odfabric.errors import InvalidManifest, Place
from odfabric.formats.json_values.canonical_json import parse_json_object
from odfabric.model.intake import FieldContract, IntakeRules, WrongRows
from odfabric.model.source import ReadStep, ReadStepCsv, ReadStepNdJson

CONTRACT = "odfabric.dev/contract"
WRONG_ROWS = "odfabric.dev/wrong-rows"
SHRINK_MAX = "odfabric.dev/shrink-max"
_PREFIX = "odfabric.dev/"
_ROW_BY_ROW = (ReadStepCsv, ReadStepNdJson)


def intake_rules(read: ReadStep) -> IntakeRules:
    """The rules of a source, those of every source where it says nothing.

    Raises InvalidManifest naming the attribute.
    """
    attributes = _attributes(read)
    known: dict[str, Callable[[object], object]] = {
        CONTRACT: lambda value: _one_of(CONTRACT, value, FieldContract),
        WRONG_ROWS: lambda value: _one_of(WRONG_ROWS, value, WrongRows),
        SHRINK_MAX: _share,
    }
    for name in attributes:
        if name.startswith(_PREFIX) and name not in known:
            raise _refusal(name, "no rule of a source", f"the rules are {', '.join(known)}")
    found = {name: judge(attributes[name]) for name, judge in known.items() if name in attributes}
    contract, wrong_rows, shrink_max = found.get(CONTRACT), found.get(WRONG_ROWS), found.get(SHRINK_MAX)
    if wrong_rows is WrongRows.QUARANTINE and not isinstance(read, _ROW_BY_ROW):
        kind = type(read).__name__.removeprefix("ReadStep")
        raise _refusal(WRONG_ROWS, f"rows of {kind} are not read one by one", "only those of Csv and NdJson are")
    return IntakeRules(
        contract=contract if isinstance(contract, FieldContract) else None,
        wrong_rows=wrong_rows if isinstance(wrong_rows, WrongRows) else WrongRows.REFUSE,
        shrink_max=shrink_max if isinstance(shrink_max, float) else None,
    )


def _attributes(read: ReadStep) -> Mapping[str, object]:
    extra = read.schema.extra if read.schema is not None else None
    return parse_json_object(extra.entries) if extra is not None else {}


def _one_of(name: str, value: object, kinds: type[FieldContract] | type[WrongRows]) -> FieldContract | WrongRows:
    for kind in kinds:
        if kind.value == value:
            return kind
    raise _refusal(name, f"`{value}` is none of its words", f"write one of {', '.join(kind.value for kind in kinds)}")


def _share(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise _refusal(SHRINK_MAX, f"`{value}` is no share", "write a number from 0 to 1; 1 lets a Snapshot lose all rows")


def _refusal(name: str, message: str, hint: str) -> InvalidManifest:
    return InvalidManifest(f"{name}: {message}", place=Place(field=f"schema.extra.{name}"), hint=hint)

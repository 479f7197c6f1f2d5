"""What is taken out of texts before they leave the node."""

import json

import pytest

from odfabric.domain.people.redaction import HIDDEN, Redaction


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("GET https://u:p@hooks.example.org:8443/T0/B1/xyz?sig=1 failed", "GET https://hooks.example.org:8443 failed"),
        ("postgresql://odf:p@ss/w@db.example.org/odf", "postgresql://db.example.org"),
        ("s3://bucket/prefix", "s3://bucket"),
        ("token=abc123, next", f"token={HIDDEN}, next"),
        ('{"password": "a b", "n": 1}', f'{{"password": "{HIDDEN}", "n": 1}}'),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {HIDDEN}"),
        ("authorization: Basic dXNlcjpwYXNz", f"authorization: Basic {HIDDEN}"),
        ("odf_pat_" + "a" * 22 + "_" + "b" * 49, HIDDEN),
        ("whsec_c2VjcmV0", HIDDEN),
        ("eyJhbGciOi.eyJzdWIi.c2ln!", f"{HIDDEN}!"),
        ("key AKIA" + "A" * 16, f"key AKIA{HIDDEN}"),
        ("job 7, attempt 1: the disk is full", "job 7, attempt 1: the disk is full"),
        ("hunter2 and hunter22, hunter%232", f"{HIDDEN} and {HIDDEN}, {HIDDEN}"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, left: str) -> None:
    assert Redaction(["hunter2", "hunter22", "hunter#2"]).text(text) == left


def test_a_secret_is_hidden_as_json_writes_it() -> None:
    secret = 'a"b\\ünter'
    assert Redaction([secret]).text(json.dumps(f"x {secret}")) == f'"x {HIDDEN}"'
    assert Redaction([secret]).text(json.dumps(f"x {secret}", ensure_ascii=False)) == f'"x {HIDDEN}"'


def test_short_texts_are_no_secrets() -> None:
    assert Redaction(["", "a", "abc"]).text("abc a") == "abc a"


def test_quoted_texts_of_a_log_may_be_rows() -> None:
    line = 'somebody\'s value \'Ada Lovelace\' is not "42" in `name`\\n  File "odfabric/a.py", line 3'
    told = "somebody's value '…' is not '…' in '…'\\n  File \"odfabric/a.py\", line 3"
    assert Redaction([]).log(line) == told

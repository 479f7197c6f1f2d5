"""The file of logins: permissions, whole replacement, other logins unchanged."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.cli.app import main
from odfabric.cli.backends.people.credentials import BYTES_MAX, Credentials, Login
from odfabric.errors import InvalidRequest

ORIGINS = ("http://127.0.0.1:8080", "https://odf.example.org", "https://odf.example.org:8443")
ANN = Login(token="secret-of-ann", account="ann")

origins = st.sampled_from(ORIGINS)
logins = st.builds(Login, token=st.text(min_size=1, max_size=80), account=st.text(min_size=1, max_size=20))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@given(st.lists(st.tuples(origins, st.none() | logins), max_size=12))
def test_logins_are_kept_by_origin_in_a_file_of_their_owner_alone(steps: list[tuple[str, Login | None]]) -> None:
    """None removes.

    After each step the file says what a dictionary would, and nothing else lies beside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "below", "credentials.json")
        model: dict[str, Login] = {}
        for origin, login in steps:
            if login is None:
                assert Credentials(path).remove(origin) is (model.pop(origin, None) is not None)
            else:
                Credentials(path).put(origin, login)
                model[origin] = login
            assert Credentials(path).all() == model
            if path.exists():
                assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
                assert list(path.parent.iterdir()) == [path]


def test_what_another_login_has_beyond_this_release_stays(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    other = {"token": "t", "account": "bob", "addedLater": {"deep": [1, None]}}
    path.write_text(json.dumps({"version": 1, "later": True, "origins": {ORIGINS[0]: other}}))
    path.chmod(0o600)
    Credentials(path).put(ORIGINS[1], ANN)
    Credentials(path).remove(ORIGINS[1])
    assert json.loads(path.read_text()) == {"version": 1, "later": True, "origins": {ORIGINS[0]: other}}


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o601, 0o666, 0o644])
def test_a_file_that_others_may_open_is_neither_read_nor_replaced(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "credentials.json"
    Credentials(path).put(ORIGINS[0], ANN)
    before = path.read_bytes()
    path.chmod(mode)
    for act in (
        lambda: Credentials(path).get(ORIGINS[0]),
        lambda: Credentials(path).put(ORIGINS[1], ANN),
        lambda: Credentials(path).remove(ORIGINS[0]),
    ):
        with pytest.raises(InvalidRequest, match="others than its owner") as refused:
            act()
        assert f"chmod 600 {path}" in str(refused.value)
        assert ANN.token not in str(refused.value)
    assert (path.read_bytes(), mode_of(path)) == (before, mode)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "does not hold logins"),
        ("[]", "does not hold logins"),
        ('{"version": 2, "origins": {}}', "another release"),
        ('{"origins": {}}', "another release"),
        ('{"version": 1, "origins": []}', "does not hold logins"),
        ('{"version": 1, "origins": {"https://a": "token"}}', "does not hold logins"),
        ('{"version": 1, "origins": {"https://a": {"token": 1, "account": "a"}}}', "without token"),
        ('{"version": 1, "origins": {"https://a": {"token": "t"}}}', "without account"),
        (" " * (BYTES_MAX + 1), "does not hold logins"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "does not hold logins"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidRequest, match=words) as refused:
        Credentials(path).all()
    assert str(path) in str(refused.value)
    assert refused.value.hint
    assert path.read_text() == text


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    for path in (pipe, tmp_path):
        path.chmod(0o700)
        with pytest.raises(InvalidRequest, match="is not a file"):
            Credentials(path).get(ORIGINS[0])


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    link, target = tmp_path / "credentials.json", tmp_path / "elsewhere.json"
    link.symlink_to(target)
    Credentials(link).put(ORIGINS[0], ANN)
    assert link.is_symlink()
    assert mode_of(target) == 0o600
    assert Credentials(link).get(ORIGINS[0]) == ANN


def test_a_change_that_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "credentials.json"
    Credentials(path).put(ORIGINS[0], ANN)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InvalidRequest, match="No space left"):
        Credentials(path).put(ORIGINS[1], ANN)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_of_commands_that_run_at_once_none_undoes_another(tmp_path: Path) -> None:
    """Each process puts and removes at origins of its own.

    A reader sees a whole file at any time.
    """
    path = tmp_path / "credentials.json"
    script = (
        "import sys; from pathlib import Path; from odfabric.cli.backends.people.credentials import Credentials, Login\n"
        "found = Credentials(Path(sys.argv[1]))\n"
        "for number in range(25):\n"
        "    found.put(f'https://{sys.argv[2]}-{number}', Login(token='t' * 500, account='a'))\n"
        "    found.put(f'https://{sys.argv[2]}-gone', Login(token='t', account='a'))\n"
        "    found.remove(f'https://{sys.argv[2]}-gone')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-P", "-c", script, str(path), str(name)]) for name in range(3)]
    torn: list[Exception] = []

    def read() -> None:
        while any(writer.poll() is None for writer in writers):
            try:
                Credentials(path).all()
            except InvalidRequest as error:
                torn.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    reader.join(60)
    assert torn == []
    assert set(Credentials(path).all()) == {f"https://{name}-{number}" for name in range(3) for number in range(25)}


def test_the_file_lies_where_configuration_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for configured, folder in (
        (str(tmp_path / "xdg"), tmp_path / "xdg"),
        ("relative", tmp_path / "home/.config"),
        ("", tmp_path / "home/.config"),
    ):
        monkeypatch.setenv("XDG_CONFIG_HOME", configured)
        Credentials.of_user("").put(ORIGINS[0], ANN)
        assert (folder / "odfabric/credentials.json").exists()
    Credentials.of_user(str(tmp_path / "named.json")).put(ORIGINS[0], ANN)
    assert (tmp_path / "named.json").exists()


def test_who_has_no_home_has_no_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", homeless)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert Credentials.of_user("").all() == {}
    assert Credentials.of_user("").remove(ORIGINS[0]) is False
    with pytest.raises(InvalidRequest, match="ODF_CREDENTIALS"):
        Credentials.of_user("").put(ORIGINS[0], ANN)


def test_a_token_is_in_no_representation() -> None:
    assert ANN.token not in repr(ANN)


def test_a_refused_file_stops_commands_on_nodes_but_not_on_workspaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "credentials.json"
    path.write_text("{}")
    path.chmod(0o644)
    monkeypatch.setenv("ODF_CREDENTIALS", str(path))
    workspace = ["--workspace", str(tmp_path / "w")]
    assert main(["init", *workspace]) == 0
    assert main(["list", *workspace]) == 0
    assert main(["list", "--node", "http://127.0.0.1:9"]) == 1
    assert "chmod 600" in capsys.readouterr().err
    assert main(["list", "--node", "http://127.0.0.1:9", "--token", "t"]) == 3, "a given token needs no login"

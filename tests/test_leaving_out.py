"""What of a folder stays at home when it travels."""

from __future__ import annotations

from pathlib import Path

from shoal.exclusions import CREDENTIALS, LEFT_OUT, left_out, travelling


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def test_what_always_stays_and_what_the_user_names(tmp_path: Path) -> None:
    assert left_out(str(tmp_path)) == [*LEFT_OUT, *CREDENTIALS]
    (tmp_path / ".shoalignore").write_text("# data\n\ndata/\n *.ckpt \n")
    assert left_out(str(tmp_path)) == [*LEFT_OUT, *CREDENTIALS, "data", "*.ckpt"]


def test_files_that_hold_credentials_stay_and_are_named(tmp_path: Path) -> None:
    secrets = [".aws/credentials", ".env", ".env.local", "deep/.netrc", "deep/id_ed25519", "deep/server.pem"]
    write(tmp_path, *secrets, "train.py", "deep/environment.yaml", "deep/keys.py", "data/credentials.csv")
    found = travelling(str(tmp_path))
    assert found.files == ["data/credentials.csv", "deep/environment.yaml", "deep/keys.py", "train.py"]
    assert found.credentials == [".aws", *secrets[1:]]
    assert ".env.local, deep/.netrc, deep/id_ed25519, ..." in (found.said() or "")


def test_what_is_named_after_a_mark_travels_and_the_last_line_decides(tmp_path: Path) -> None:
    write(tmp_path, ".env", "deep/ca.pem", "deep/own.pem", "data/big", "train.py")
    (tmp_path / ".shoalignore").write_text("data\n!.env\n!deep/*.pem\nown.pem\n")
    found = travelling(str(tmp_path))
    assert found.files == [".env", ".shoalignore", "deep/ca.pem", "train.py"]
    assert (found.credentials, found.said()) == ([], None)

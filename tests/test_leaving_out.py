"""What of a folder stays at home when it travels."""

from __future__ import annotations

from pathlib import Path

from shoal.leaving_out import LEFT_OUT, left_out


def test_what_always_stays_and_what_the_user_names(tmp_path: Path) -> None:
    assert left_out(str(tmp_path)) == list(LEFT_OUT)
    (tmp_path / ".shoalignore").write_text("# data\n\ndata/\n *.ckpt \n")
    assert left_out(str(tmp_path)) == [*LEFT_OUT, "data", "*.ckpt"]

"""States and causes are the text that is recorded and sent, wherever they go."""

from __future__ import annotations

import json
import pickle
import sqlite3

from shoal.model.states import FINAL, UNFINISHED, WITH_RESULT, ItemState, RunState


def test_a_state_is_its_text_in_json_sql_pickles_and_messages() -> None:
    state = ItemState.DONE
    assert json.dumps({state: [state]}) == '{"done": ["done"]}'
    [found] = sqlite3.connect(":memory:").execute("SELECT ?, typeof(?)", (state, state)).fetchall()
    assert found == ("done", "text")
    assert pickle.loads(pickle.dumps(state)) is state
    assert f"{state} {state!r} {state!s}" == "done 'done' done"
    assert {"done": 1}[state] == 1


def test_what_a_state_implies() -> None:
    assert set(ItemState) - FINAL == {"waiting", "running"}
    assert UNFINISHED == ("waiting", "running", "stopped")
    assert WITH_RESULT == ("done", "cached")
    assert [state for state in RunState if state.is_active] == ["queued", "running"]
    assert [state for state in RunState if state.has_ended] == ["succeeded", "failed", "stopped"]

"""What a patch may change in a state, read off the state itself."""

from __future__ import annotations

from typing import Any

import pytest

from rods.daemon.authors.state_shapes import is_map, leaves, refusals

STATE: dict[str, Any] = {
    "today": "monday",
    "files": {
        "memo": {"folder": "old", "size": 3, "locked": True, "shared": ["box1"]},
        "plan": {"folder": "new", "size": 5, "locked": False, "shared": []},
    },
    "market": {
        "status": "Closed",
        "rate": 0.5,
        "orders": {"12345": {"state": "open"}, "12346": {"state": "done"}},
    },
    "drafts": {},
    "note": None,
}


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        ({"files": {"memo": {"locked": False}}}, None),
        ({"market": {"status": "Open", "rate": 1}}, None),
        ({"files": {"new": {"folder": "old", "size": 1, "locked": False, "shared": []}}}, None),
        ({"market": {"orders": {"7": {"state": "open"}}}}, None),
        ({"drafts": {"anything": {"goes": 1}}}, None),
        ({"note": "written"}, None),
        ({"fies": {}}, "unknown_class"),
        ({"files": {"memo": {"lockd": False}}}, "unknown_field"),
        ({"market": {"state": "Open"}}, "unknown_field"),
        ({"files": {"memo": {"locked": "no"}}}, "changed_type"),
        ({"files": {"memo": {"locked": 0}}}, "changed_type"),
        ({"files": {"memo": {"size": 3.5}}}, "changed_type"),
        ({"files": {"memo": {"shared": [1]}}}, "changed_type"),
        ({"files": {"new": {"folder": "old"}}}, "changed_type"),
        ({"files": {"new": "a file"}}, "changed_type"),
        ({"files": "a summary"}, "clobbers"),
        ({"files": {"memo": ["old"]}}, "clobbers"),
        ({"market": {"orders": {"latest": {"state": "open"}}}}, "bad_key"),
        ({"today": "x" * 20_001}, "too_large"),
    ],
)
def test_a_patch_keeps_the_shape_of_the_state(patch: dict[str, Any], kind: str | None) -> None:
    found = refusals(STATE, patch)
    assert [refusal.kind for refusal in found] == ([kind] if kind else [])
    assert all(str(refusal).startswith(refusal.kind) for refusal in found)


def test_maps_have_like_entries_and_records_have_fields() -> None:
    assert is_map(STATE["files"], record=False) and is_map(STATE["market"]["orders"], record=False)
    assert not is_map(STATE["market"], record=False) and not is_map(
        STATE["files"]["memo"], record=True
    )
    assert not is_map({}, record=False) and not is_map({"a": 1, "b": 2}, record=True)


def test_a_patch_is_taken_apart_leaf_by_leaf() -> None:
    assert list(leaves({"a": {"b": 1, "c": {}}})) == [(("a", "b"), 1), (("a", "c"), {})]


def test_a_file_may_be_added_to_a_folder_that_holds_folders_only() -> None:
    def folder(**contents: Any) -> dict[str, Any]:
        return {"type": "directory", "contents": contents}

    note = {"type": "file", "content": "x"}
    state = {"root": folder(a=folder(b=folder()), c=folder(d=note, e=note))}

    def patched(new: Any) -> list[str]:
        patch = {"root": {"contents": {"a": {"contents": {"new": new}}}}}
        return [refusal.kind for refusal in refusals(state, patch)]

    assert patched(note) == []
    assert patched({"size": 3}) == ["changed_type"]

#!/usr/bin/env bash
# Software: datasets 5.2.0 (`load_dataset("json")`, with which TRL, verl and others read
#   conversations with calls).
# Expected: the arguments of calls in a file of JSON lines come back as they were written: a text
#   is a text, a key that is not there is not there.
# Seen: texts that are dates become datetimes where all texts of that key are dates (json.dumps
#   and templates then raise), and stay texts as soon as one is not. Where a key has a number here
#   and a text there, the texts are read as JSON once more: "3" comes back as 3, "true" as True,
#   "null" as None, "[1]" as a list. Keys that only other rows have are absent, as written; the
#   same rows through `Dataset.from_list` have them with None, and keep that in Parquet. Files of
#   which one has one shape of arguments and the other has several load alone, and not together.
# Touches: whoever trains on or scores calls that went through a data set: ground truths change
#   their type by what stands in other rows. Keep arguments as JSON text in the file, and parse
#   them after loading.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1
export HF_HOME=$folder/home TMPDIR=$folder
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0
cat >"$folder/expected" <<'END'
['2026-11-29', '2026-12-01'] → [datetime.datetime(2026, 11, 29, 0, 0), datetime.datetime(2026, 12, 1, 0, 0)]
['2026-11-29', 'tomorrow'] → ['2026-11-29', 'tomorrow']
[3, '3'] → [3, 3]
[3, 'soon'] → [3, 'soon']
[True, 'true'] → [True, True]
[3, 'null'] → [3, None]
[[1], '[1]'] → [[1], [1]]
of JSON lines: [{'city': 'Rome'}, {'days': 3}]
of a list: [{'city': 'Rome', 'days': None}, {'city': None, 'days': 3}]
of JSON lines, by Parquet: [{'city': 'Rome'}, {'days': 3}]
of a list, by Parquet: [{'city': 'Rome', 'days': None}, {'city': None, 'days': 3}]
two files at once: DatasetGenerationError
two files, concatenated: ValueError
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import json
import tempfile
from itertools import count
from pathlib import Path

import datasets

datasets.disable_progress_bars()
folder = Path(tempfile.mkdtemp())
numbers = count()


def written(*arguments):
    """A file with a call in each line."""
    file = folder / f"{next(numbers)}.jsonl"
    lines = [json.dumps({"name": "book", "arguments": each}) + "\n" for each in arguments]
    file.write_text("".join(lines), encoding="utf-8")
    return str(file)


def loaded(*files):
    return datasets.load_dataset("json", data_files=list(files), cache_dir=str(folder))["train"]


def show(*values):
    rows = loaded(written(*({"x": value} for value in values)))
    print(f"{list(values)} → {[row['arguments']['x'] for row in rows]}")


show("2026-11-29", "2026-12-01")
show("2026-11-29", "tomorrow")
show(3, "3")
show(3, "soon")
show(True, "true")
show(3, "null")
show([1], "[1]")

apart = ({"city": "Rome"}, {"days": 3})
print("of JSON lines:", list(loaded(written(*apart))["arguments"]))
listed = datasets.Dataset.from_list([{"arguments": each} for each in apart])
print("of a list:", list(listed["arguments"]))
parquet = str(folder / "rows.parquet")
loaded(written(*apart)).to_parquet(parquet)
again = datasets.load_dataset("parquet", data_files=parquet, cache_dir=str(folder))["train"]
print("of JSON lines, by Parquet:", list(again["arguments"]))
listed.to_parquet(parquet + "2")
again = datasets.load_dataset("parquet", data_files=parquet + "2", cache_dir=str(folder))["train"]
print("of a list, by Parquet:", list(again["arguments"]))
try:
    loaded(written({"city": "Rome"}), written(*apart))
except datasets.exceptions.DatasetGenerationError as error:
    print("two files at once:", type(error).__name__)
try:
    datasets.concatenate_datasets([loaded(written({"city": "Rome"})), loaded(written(*apart))])
except ValueError as error:
    print("two files, concatenated:", type(error).__name__)
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"

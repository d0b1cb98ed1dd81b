#!/usr/bin/env bash
# Software: inspect-ai 0.3.285 (`match(numeric=True)`, by which inspect-evals' GSM8K and MGSM are
#   scored).
# Expected: currency signs and thousands separators are taken away and the numbers compared, as
#   the documentation says: equal ones match.
# Seen: they are compared with five significant digits. 123457 is right for 123456, $19,999.50 for
#   $19,999.90, the date 20261201 for 20261130 and order 1000001 for order 1000000, with
#   `location="exact"` too. The answer that is reported is the rounded one, 1.2346e+05. Up to five
#   digits all is as it should be: 12345 is wrong for 12346. A comma is dropped wherever it
#   stands: "1, 2" has two numbers, and "1,2" is right for 12.
# Touches: whoever scores or rewards amounts, dates, populations or identifiers with it: near
#   misses are right, the more so the larger the number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q inspect-ai==0.3.285 pydantic==2.14.4
cat >"$folder/expected" <<'END'
end: '12345' for '12346': wrong
end: 'The total is 123457.' for '123456': right, read as 1.2346e+05
end: '$19,999.50' for '$19,999.90': right, read as 20000
end: 'On 20261201.' for '20261130': right, read as 2.0261e+07
any: 'Order 1000001 is late.' for '1000000': right, read as 1e+06
begin: '1000001 is late' for '1000000': right, read as 1e+06
exact: '100001' for '100002': right, read as 1e+05
end: 'It is 1, 2' for '12': wrong
end: 'It is 1,2' for '12': right, read as 12
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import asyncio
from types import SimpleNamespace

from inspect_ai.scorer import CORRECT, Target, match

CASES = (
    ("end", "12345", "12346"),
    ("end", "The total is 123457.", "123456"),
    ("end", "$19,999.50", "$19,999.90"),
    ("end", "On 20261201.", "20261130"),
    ("any", "Order 1000001 is late.", "1000000"),
    ("begin", "1000001 is late", "1000000"),
    ("exact", "100001", "100002"),
    ("end", "It is 1, 2", "12"),
    ("end", "It is 1,2", "12"),
)


async def main():
    for location, said, target in CASES:
        state = SimpleNamespace(output=SimpleNamespace(completion=said))  # all that is looked at
        score = await match(location, numeric=True)(state, Target([target]))
        verdict = f"right, read as {score.answer}" if score.value == CORRECT else "wrong"
        print(f"{location}: {said!r} for {target!r}: {verdict}")


asyncio.run(main())
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"

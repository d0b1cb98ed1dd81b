#!/usr/bin/env bash
# Software: bfcl-eval 2026.3.23 (`agentic_checker`, which scores answers in the categories memory
#   and web search).
# Expected: an answer counts when one of the expected ones stands in it as a word, whatever its
#   case, its whitespace and some punctuation, as the function's description says.
# Seen: whitespace is not ignored. The punctuation is taken out, not replaced, in answer and
#   expectation: words at both sides of a full stop without a blank, a slash or a hyphen become
#   one word, and the expected one is no longer found; a decimal point or a comma between numbers
#   goes the same way, so that 15 is right for 1.5 and "3,4" for 34. Expected texts that end in
#   another sign, such as "C++" and "100%", are not found, since the end of a word is asked for
#   behind them. A mention is enough: "not 5 but 7" is right for 5.
# Touches: whoever scores or rewards free answers with it, and whoever prompts for their form:
#   markdown, units and lists decide scores.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps bfcl-eval==2026.3.23 # of its 150 packages
cat >"$folder/expected" <<'END'
right: 'It is Paris. It rains.' for 'Paris'
wrong: 'It is Paris.It rains.' for 'Paris'
wrong: 'Lyon/Paris' for 'Paris'
wrong: 'a Paris-based firm' for 'Paris'
wrong: 'New  York' for 'New York'
wrong: 'New\nYork' for 'New York'
right: '15' for '1.5'
right: 'rooms 3,4' for '34'
right: '-5' for '5'
right: 'It is not 5 but 7.' for '5'
wrong: 'It is C++.' for 'C++'
wrong: 'It is 100% sure.' for '100%'
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
from bfcl_eval.eval_checker.agentic_eval.agentic_checker import agentic_checker

CASES = (
    ("Paris", "It is Paris. It rains."),
    ("Paris", "It is Paris.It rains."),
    ("Paris", "Lyon/Paris"),
    ("Paris", "a Paris-based firm"),
    ("New York", "New  York"),
    ("New York", "New\nYork"),
    ("1.5", "15"),
    ("34", "rooms 3,4"),
    ("5", "-5"),
    ("5", "It is not 5 but 7."),
    ("C++", "It is C++."),
    ("100%", "It is 100% sure."),
)
for expected, answer in CASES:
    verdict = "right" if agentic_checker(answer, [expected])["valid"] else "wrong"
    print(f"{verdict}: {answer!r} for {expected!r}")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"

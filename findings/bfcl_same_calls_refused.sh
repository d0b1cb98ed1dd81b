#!/usr/bin/env bash
# Software: bfcl-eval 2026.3.23 (the checker of BFCL's multi-turn categories, and two of its API
#   classes).
# Expected: a model that makes the very calls of the ground truth, in the same turns, is right.
# Seen: it is refused where (a) a text argument has a tool's name before a parenthesis, as in "use
#   cd (up)": before a call runs, an expression puts the instance's name before each tool's name,
#   in texts too, and the instances of model and ground truth have different names, so different
#   texts are written; and where (b) `post_tweet` is called without mentions and `mention` then
#   names that tweet: the default list is one for all instances, so the ground truth, which runs
#   second, finds the model's mention in it.
# Touches: whoever writes tasks in BFCL's form or exports to it: leave such calls out, or fail
#   with every right answer. BFCL's own 800 ground truths are right against themselves.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps bfcl-eval==2026.3.23 mpmath==1.3.0 # of its 150 packages
cat >"$folder/expected" <<'END'
echo(content='use the shell', file_name='a.txt')
   right
echo(content='use cd (up)', file_name='a.txt')
   multi_turn:instance_state_mismatch
post_tweet(content='Hello', mentions=[]); mention(tweet_id=0, mentioned_usernames=['@bob'])
   right
post_tweet(content='Hello'); mention(tweet_id=0, mentioned_usernames=['@bob'])
   multi_turn:execution_response_mismatch
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
from itertools import count

from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

FILES = {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "x"}}}
STATES = {
    "GorillaFileSystem": {"root": {"workspace": FILES}},
    "TwitterAPI": {
        "username": "ann",
        "password": "secret",
        "authenticated": True,
        "tweets": {},
        "comments": {},
        "retweets": {},
        "following_list": [],
        "tweet_counter": 0,
    },
}
numbers = count()


def check(api, *calls):
    """One turn, in which the model makes the calls of the ground truth."""
    task = {
        "id": f"multi_turn_base_{next(numbers)}",
        "initial_config": STATES,
        "involved_classes": [api],
    }
    verdict = multi_turn_checker([[list(calls)]], [list(calls)], task, "multi_turn_base", "model")
    print("; ".join(calls))
    print("  ", "right" if verdict["valid"] else verdict["error_type"])


check("GorillaFileSystem", "echo(content='use the shell', file_name='a.txt')")
check("GorillaFileSystem", "echo(content='use cd (up)', file_name='a.txt')")
MENTION = "mention(tweet_id=0, mentioned_usernames=['@bob'])"
check("TwitterAPI", "post_tweet(content='Hello', mentions=[])", MENTION)
check("TwitterAPI", "post_tweet(content='Hello')", MENTION)
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"

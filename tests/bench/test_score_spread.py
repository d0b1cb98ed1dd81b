"""The two history rules between which the bench compares."""

from bench.score_spread import answers, whole
from rods.dialects import Message

FIRST = [
    Message("system", "tools"),
    Message("user", "Book a room."),
    Message("assistant", "! book room= r1"),
    Message("tool", "booked"),
    Message("assistant", "Done."),
]
SECOND = [
    Message("user", "Cancel it."),
    Message("assistant", "! cancel room= r1"),
    Message("tool", "cancelled"),
]


def test_of_earlier_turns_only_the_answers_are_shown_and_of_this_turn_everything() -> None:
    assert answers(FIRST[:4]) == FIRST[:4]
    assert answers([*FIRST, *SECOND]) == [FIRST[0], FIRST[1], FIRST[4], *SECOND]
    unanswered = [*FIRST[:4], *SECOND]
    assert answers(unanswered) == [FIRST[0], FIRST[1], *SECOND], (
        "a turn that ran out of steps has no answer"
    )
    assert whole([*FIRST, *SECOND]) == [*FIRST, *SECOND]

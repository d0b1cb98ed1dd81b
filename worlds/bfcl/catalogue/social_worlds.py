"""New workspaces, timelines and ticket queues, and what may be chosen in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.composing.catalogue import Domain, Scene, Worded
from worlds.bfcl.catalogue import pools
from worlds.bfcl.catalogue.notation import Wish

MESSAGES, TWEETS, TICKETS = "MessageAPI", "TwitterAPI", "TicketAPI"
NOTES = (
    "I will be ten minutes late",
    "The documents are on your desk",
    "Can we move our meeting to Thursday",
    "Thank you for your help yesterday",
    "Please call me when you have time",
    "The numbers arrived and look good",
    "Lunch is at noon in the garden cafe",
    "I left the keys with the front desk",
    "The train is delayed by half an hour",
    "Your parcel came this morning",
    "Let us talk about the budget tomorrow",
    "The room is booked until four",
    "I have sent you the new version",
    "Do not forget the signatures",
    "We won the contract",
    "The print shop needs one more day",
)
POSTS = (
    "What a productive morning",
    "Small steps add up in the end",
    "Finally finished what I started last week",
    "Nothing beats a plan that works",
    "Today was full of surprises",
    "Grateful for a great team",
    "Learning something new every day",
    "The best part of the job is the people",
    "One more milestone reached",
    "Coffee first and then the rest",
    "Big news is coming soon",
    "Everything is easier with good notes",
    "Sunshine and steady progress",
    "Never underestimate a good checklist",
)
REPLIES = (
    "Well said",
    "Could not agree more",
    "Thanks for sharing this",
    "More about this next week",
    "This made my day",
    "Count me in",
    "Looking forward to it",
    "So proud of everyone",
    "Photos will follow",
    "Here is to the next one",
)
TAGS = (
    *("#progress", "#teamwork", "#goals", "#weekend", "#learning", "#planning", "#community", "#focus"),
    *("#travelnotes", "#goodnews", "#milestone", "#behindthescenes", "#roadtrip", "#markets", "#journal"),
)
HANDLES = (
    *("river_walker", "lena_writes", "coastal_mike", "data_dora", "green_thumb", "night_owl", "city_cyclist"),
    *("paper_crane", "mountain_mo", "sunny_side", "quiet_corner", "tech_tilda", "bookish_ben", "stargazer"),
)
TITLES = (
    "Printer out of order",
    "Login page is slow",
    "Broken link in the newsletter",
    "Missing invoice",
    "Projector in room four",
    "Password reset fails",
    "Wrong address in my profile",
    "Delayed refund",
    "Badge does not open the gate",
    "Report shows old figures",
    "Calendar sync stopped",
    "Double charge on my card",
    "Email notifications missing",
    "Heating on the second floor",
)
DESCRIPTIONS = (
    "It started yesterday afternoon and happens every time",
    "Several people in my team are affected",
    "Restarting did not help",
    "I need this fixed before the end of the week",
    "The error appears right after I log in",
    "This has happened twice this month",
    "Nobody has answered my last email about it",
    "A short check by phone would be enough",
    "It only happens in the morning",
    "The old version worked without problems",
)
SOLUTIONS = (
    "Fixed by a restart of the service",
    "The customer found the cause and no action is needed",
    "Replaced the faulty cable",
    "Access rights were granted again",
    "The refund was sent on Monday",
    "Settings were put back to the defaults",
    "Solved together on the phone",
    "The new release contains the fix",
)
PASSWORDS = (
    "lantern77",
    "Blue!Kettle",
    "sparrow_19",
    "8oaktrees",
    "Winter.Sun4",
    "copper-moon",
    "T1ngle&Co",
    "harbor2day",
)


def make_workspace(wish: Wish) -> dict[str, Any]:
    """Four to six people, some messages; logged in unless a recipe logs in."""
    rng = wish.rng
    people = wish.fresh(pools.FIRST_NAMES, rng.randint(4, 6))
    users = {name: f"USR{number:03d}" for number, name in enumerate(people, start=1)}
    ids = list(users.values())
    me = ids[0]
    notes = rng.sample(NOTES, 3)
    inbox = [{person: note} for person, note in zip(rng.sample(ids[1:], 3), notes, strict=True)]
    return {
        "user_count": len(users),
        "user_map": users,
        "inbox": inbox,
        "message_count": len(inbox),
        "current_user": None if wish.calls("message_login") else me,
        "random_seed": rng.randint(10_000, 999_999),
    }


def make_timeline(wish: Wish) -> dict[str, Any]:
    """Some tweets, people to follow; signed in unless a recipe signs in."""
    rng = wish.rng
    me, *others = wish.fresh(HANDLES, 5)
    posts = rng.sample(POSTS, 3)
    tweets = {
        str(number): {
            "id": number,
            "username": rng.choice((me, others[0])),
            "content": post,
            "tags": rng.sample(TAGS, rng.randint(1, 2)),
            "mentions": [],
        }
        for number, post in enumerate(posts, start=rng.randint(3, 40))
    }
    return {
        "username": me,
        "password": wish.fresh(PASSWORDS)[0],
        "authenticated": not wish.calls("authenticate_twitter"),
        "tweets": tweets,
        "comments": {},
        "retweets": {},
        "following_list": others[:3],
        "tweet_counter": max(map(int, tweets)) + rng.randint(1, 3),
    }


def make_queue(wish: Wish) -> dict[str, Any]:
    """Some open tickets; logged in unless a recipe logs in."""
    rng = wish.rng
    me = f"{wish.fresh(pools.FIRST_NAMES)[0]} {wish.fresh(pools.LAST_NAMES)[0]}"
    first = rng.randint(120, 9_000)
    queue = [
        {
            "id": first + place * rng.randint(1, 9) + place,
            "title": title,
            "description": rng.choice(DESCRIPTIONS),
            "status": "Open",
            "priority": rng.randint(1, 4),
            "created_by": me if place else rng.choice(pools.FIRST_NAMES),
        }
        for place, title in enumerate(rng.sample(TITLES, rng.randint(2, 3)))
    ]
    return {
        "ticket_queue": queue,
        "ticket_counter": first + 60 + rng.randint(0, 40),
        "current_user": None if wish.calls("ticket_login") else me,
    }


def _part(state: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = state.get("objects", {}).get(group) or state["config"][group]
    return found


def _users(scene: Scene) -> dict[str, str]:
    users: dict[str, str] = _part(scene.state, MESSAGES)["user_map"]
    return users


def _me(scene: Scene) -> str | None:
    me: str | None = _part(scene.state, MESSAGES)["current_user"]
    return me


def _colleagues(scene: Scene) -> list[str]:
    """Everybody else by name; the first of all is oneself while nobody is logged in."""
    me = _me(scene) or next(iter(_users(scene).values()))
    return [name for name, number in _users(scene).items() if number != me]


def _colleague_ids(scene: Scene) -> list[str]:
    known = set(scene.state["config"][MESSAGES]["user_map"].values())
    return [_users(scene)[name] for name in _colleagues(scene) if _users(scene)[name] in known]


def _addressed(scene: Scene) -> list[str]:
    """Ids of those to whom a message was sent."""
    found = {receiver for message in _part(scene.state, MESSAGES)["inbox"] for receiver in message}
    return [number for number in _colleague_ids(scene) if number in found]


def _addressed_names(scene: Scene) -> list[str]:
    found = {receiver for message in _part(scene.state, MESSAGES)["inbox"] for receiver in message}
    return [name for name in _colleagues(scene) if _users(scene)[name] in found]


def _strangers(scene: Scene) -> list[str]:
    return [name for name in pools.FIRST_NAMES if name not in _users(scene)]


def _keywords(scene: Scene) -> list[str]:
    """Words of the messages."""
    texts = [text for message in _part(scene.state, MESSAGES)["inbox"] for text in message.values()]
    return sorted({word for text in texts for word in str(text).split() if len(word) > 4 and word.isalpha()})


def _tweets(scene: Scene) -> list[int]:
    """Numbers of the tweets that were there from the start."""
    return [int(number) for number in scene.state["config"][TWEETS]["tweets"]]


def _hashtags(scene: Scene) -> list[str]:
    tweets = scene.state["config"][TWEETS]["tweets"].values()
    return sorted({tag for tweet in tweets for tag in tweet["tags"]})


def _tag_lists(scene: Scene) -> list[list[str]]:
    return [[tag] for tag in TAGS] + [[one, two] for one, two in zip(TAGS, TAGS[4:], strict=False)]


def _mention_lists(scene: Scene) -> list[list[str]]:
    handles = [f"@{name}" for name in HANDLES if name != _part(scene.state, TWEETS)["username"]]
    return [[handle] for handle in handles] + [[one, two] for one, two in zip(handles, handles[3:], strict=False)]


def _unfollowed(scene: Scene) -> list[str]:
    record = _part(scene.state, TWEETS)
    return [name for name in HANDLES if name not in record["following_list"] and name != record["username"]]


def _authors(scene: Scene) -> list[str]:
    return sorted({tweet["username"] for tweet in scene.state["config"][TWEETS]["tweets"].values()})


def _tickets(scene: Scene) -> list[int]:
    """Numbers of the tickets that were open from the start and are still."""
    now = {ticket["id"]: ticket["status"] for ticket in _part(scene.state, TICKETS)["ticket_queue"]}
    return [one["id"] for one in scene.state["config"][TICKETS]["ticket_queue"] if now.get(one["id"]) == "Open"]


def _updates(scene: Scene) -> list[Worded]:
    changes = [Worded({"priority": level}, f"priority to {level}") for level in range(1, 6)]
    changes += [
        Worded({"status": status}, f"status to '{status}'")
        for status in ("In Progress", "Urgent", "On Hold", "Pending")
    ]
    changes += [Worded({"title": title}, f"title to '{title}'") for title in TITLES]
    changes += [Worded({"description": text}, f"description to '{text}'") for text in DESCRIPTIONS]
    return changes


MESSAGE_DOMAINS: Mapping[str, Domain] = {
    "own_id": lambda scene: [next(iter(_users(scene).values()))],
    "colleague": _colleagues,
    "colleague_id": _colleague_ids,
    "addressed": _addressed,
    "addressed_name": _addressed_names,
    "stranger": _strangers,
    "note": lambda scene: NOTES,
    "keyword": _keywords,
}
TWEET_DOMAINS: Mapping[str, Domain] = {
    "handle": lambda scene: [_part(scene.state, TWEETS)["username"]],
    "twitter_password": lambda scene: [_part(scene.state, TWEETS)["password"]],
    "post": lambda scene: POSTS,
    "reply": lambda scene: REPLIES,
    "tags": _tag_lists,
    "mentions": _mention_lists,
    "tweet_number": _tweets,
    "hashtag": _hashtags,
    "unfollowed": _unfollowed,
    "followed": lambda scene: list(_part(scene.state, TWEETS)["following_list"]),
    "author": _authors,
}
TICKET_DOMAINS: Mapping[str, Domain] = {
    "title": lambda scene: TITLES,
    "description": lambda scene: DESCRIPTIONS,
    "priority": lambda scene: (1, 2, 3, 4, 5),
    "ticket_number": _tickets,
    "solution": lambda scene: SOLUTIONS,
    "update": _updates,
    "status": lambda scene: ("Open", "Closed", "Resolved"),
    "agent": lambda scene: [
        f"{first.lower()}.{last.lower()}" for first, last in zip(pools.FIRST_NAMES, pools.LAST_NAMES, strict=False)
    ],
    "ticket_password": lambda scene: PASSWORDS,
}

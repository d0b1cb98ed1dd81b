"""BFCL's messages, tweets and tickets: new workspaces, timelines and queues, and what may be chosen
in them."""

from collections.abc import Iterator, Mapping

from rods.canonical import JsonMapping, JsonObject
from rods.composing.catalogue import Domain, Scene, Worded
from rods.environments.base import Results
from rods.tasks import Task
from rods.worlds.bfcl.catalogue import scenario

MESSAGE_API = "MessageAPI"
TWITTER_API = "TwitterAPI"
TICKET_API = "TicketAPI"
_MESSAGES = scenario.tables("messages")
_TWEETS = scenario.tables("tweets")
_TICKETS = scenario.tables("tickets")
_workspace, _feed, _queue = map(scenario.object_of, (MESSAGE_API, TWITTER_API, TICKET_API))
_TITLES: tuple[str, ...] = _TICKETS.pools["titles"]
_HANDLES: tuple[str, ...] = _TWEETS.pools["handles"]
_TAGS: tuple[str, ...] = _TWEETS.pools["tags"]
_TAG_LISTS = [[tag] for tag in _TAGS] + [
    [tag, other] for tag, other in zip(_TAGS, _TAGS[4:], strict=False)
]


def make_workspace(request: scenario.ScenarioRequest) -> JsonObject:
    """Four to six people, some messages; logged in unless a recipe logs in."""
    rng = request.rng
    people = request.fresh(scenario.FIRST_NAMES, rng.randint(4, 6))
    users = {name: f"USR{number:03d}" for number, name in enumerate(people, start=1)}
    ids = list(users.values())
    me = ids[0]
    notes = rng.sample(_MESSAGES.domains["note"], 3)
    inbox = [{person: note} for person, note in zip(rng.sample(ids[1:], 3), notes, strict=True)]
    return {
        "user_count": len(users),
        "user_map": users,
        "inbox": inbox,
        "message_count": len(inbox),
        "current_user": None if request.calls("message_login") else me,
        "random_seed": rng.randint(10_000, 999_999),
    }


def make_timeline(request: scenario.ScenarioRequest) -> JsonObject:
    """Some tweets, people to follow; signed in unless a recipe signs in."""
    rng = request.rng
    me, *others = request.fresh(_HANDLES, 5)
    posts = rng.sample(_TWEETS.domains["post"], 3)
    tweets = {
        str(number): {
            "id": number,
            "username": rng.choice((me, others[0])),
            "content": post,
            "tags": rng.sample(_TAGS, rng.randint(1, 2)),
            "mentions": [],
        }
        for number, post in enumerate(posts, start=rng.randint(3, 40))
    }
    return {
        "username": me,
        "password": request.fresh([*map(str, _TICKETS.domains["ticket_password"])])[0],
        "authenticated": not request.calls("authenticate_twitter"),
        "tweets": tweets,
        "comments": {},
        "retweets": {},
        "following_list": others[:3],
        "tweet_counter": max(map(int, tweets)) + rng.randint(1, 3),
    }


def shared_mentions(task: Task, results: Results) -> Iterator[tuple[int, int, str]]:
    """The calls of `mention` on a tweet that the task itself posted without mentions.

    The official class gives all such tweets one list, its method's default, in the policy's world
    and in that of the ground truth alike: whoever is mentioned stands there twice. A tweet shown in
    that turn then differs between the two worlds, which refuses the very ground truth; and where
    none is shown, a wrong mention passes.
    """
    unmentioned = set()
    for turn, (calls, seen) in enumerate(zip(task.calls, results, strict=True)):
        for index, (call, result) in enumerate(zip(calls, seen, strict=True)):
            if (
                call.name == "post_tweet"
                and result.error is None
                and "mentions" not in call.arguments
            ):
                unmentioned.add(result.value["id"])
            elif call.name == "mention" and call.arguments.get("tweet_id") in unmentioned:
                yield (
                    turn,
                    index,
                    "mentions somebody on a tweet posted without mentions (worlds share its list)",
                )


def make_queue(request: scenario.ScenarioRequest) -> JsonObject:
    """Some open tickets; logged in unless a recipe logs in."""
    rng = request.rng
    me = f"{request.fresh(scenario.FIRST_NAMES)[0]} {request.fresh(scenario.LAST_NAMES)[0]}"
    first = rng.randint(120, 9_000)
    queue = [
        {
            "id": first + 10 * place + rng.randint(0, 9),
            "title": title,
            "description": rng.choice(_TICKETS.domains["description"]),
            "status": "Open",
            "priority": rng.randint(1, 4),
            "created_by": me if place else rng.choice(scenario.FIRST_NAMES),
        }
        for place, title in enumerate(rng.sample(_TITLES, rng.randint(2, 3)))
    ]
    return {
        "ticket_queue": queue,
        "ticket_counter": first + 60 + rng.randint(0, 40),
        "current_user": None if request.calls("ticket_login") else me,
    }


def _users(scene: Scene) -> dict[str, str]:
    users: dict[str, str] = _workspace(scene)["user_map"]
    return users


def _colleagues(scene: Scene) -> list[str]:
    """Everybody else by name; the first of all is oneself while nobody is logged in."""
    users = _users(scene)
    me = _workspace(scene)["current_user"] or next(iter(users.values()))
    return [name for name, number in users.items() if number != me]


def _colleague_ids(scene: Scene) -> list[str]:
    ids = set(scene.state["config"][MESSAGE_API]["user_map"].values())
    return [_users(scene)[name] for name in _colleagues(scene) if _users(scene)[name] in ids]


def _receivers(scene: Scene) -> set[str]:
    """Ids of those to whom a message was sent."""
    return {receiver for message in _workspace(scene)["inbox"] for receiver in message}


def _keywords(scene: Scene) -> list[str]:
    """Words of the messages."""
    texts = [text for message in _workspace(scene)["inbox"] for text in message.values()]
    return sorted(
        {word for text in texts for word in str(text).split() if len(word) > 4 and word.isalpha()}
    )


def _timeline(scene: Scene) -> JsonMapping:
    """The tweets that were there from the start, by their numbers."""
    tweets: JsonMapping = scene.state["config"][TWITTER_API]["tweets"]
    return tweets


def _mention_lists(scene: Scene) -> list[list[str]]:
    """Of those whom no tweet mentions yet, so that nobody is added to one twice."""
    lists = [tweet["mentions"] for tweet in _timeline(scene).values()]
    for call, _ in scene.calls:
        lists += [call.arguments.get(name, []) for name in ("mentions", "mentioned_usernames")]
    there = {handle for named in lists for handle in named}
    others = (f"@{name}" for name in _HANDLES if name != _feed(scene)["username"])
    handles = [handle for handle in others if handle not in there]
    return [[handle] for handle in handles] + [
        [user, other] for user, other in zip(handles, handles[3:], strict=False)
    ]


def _unfollowed(scene: Scene) -> list[str]:
    record = _feed(scene)
    return [
        name
        for name in _HANDLES
        if name not in record["following_list"] and name != record["username"]
    ]


def _tickets(scene: Scene) -> list[int]:
    """Numbers of the tickets that were open from the start and are still."""
    now = {ticket["id"]: ticket["status"] for ticket in _queue(scene)["ticket_queue"]}
    return [
        old["id"]
        for old in scene.state["config"][TICKET_API]["ticket_queue"]
        if now.get(old["id"]) == "Open"
    ]


_UPDATES = [
    *(Worded({"priority": level}, f"priority to {level}") for level in range(1, 6)),
    *(
        Worded({"status": it}, f"status to '{it}'")
        for it in ("In Progress", "Urgent", "On Hold", "Pending")
    ),
    *(Worded({"title": title}, f"title to '{title}'") for title in _TITLES),
    *(
        Worded({"description": text}, f"description to '{text}'")
        for text in _TICKETS.domains["description"]
    ),
]


def _used(scene: Scene) -> set[str]:
    """The titles and descriptions of the tickets that are there."""
    queue = _queue(scene)["ticket_queue"]
    return {ticket[name] for ticket in queue for name in ("title", "description")}


def _updates(scene: Scene) -> list[Worded]:
    """Changes by which no ticket gets the title or the description of one that is there."""
    had = _used(scene)
    return [update for update in _UPDATES if had.isdisjoint(update.value.values())]


MESSAGE_DOMAINS: Mapping[str, Domain] = {
    "own_id": lambda scene: [next(iter(_users(scene).values()))],
    "colleague": _colleagues,
    "colleague_id": _colleague_ids,
    "addressed": lambda scene: [
        number for number in _colleague_ids(scene) if number in _receivers(scene)
    ],
    "addressed_name": lambda scene: [
        name for name in _colleagues(scene) if _users(scene)[name] in _receivers(scene)
    ],
    "stranger": lambda scene: [name for name in scenario.FIRST_NAMES if name not in _users(scene)],
    "keyword": _keywords,
}
TWEET_DOMAINS: Mapping[str, Domain] = {
    "handle": lambda scene: [_feed(scene)["username"]],
    "twitter_password": lambda scene: [_feed(scene)["password"]],
    "tags": lambda scene: _TAG_LISTS,
    "mentions": _mention_lists,
    "tweet_number": lambda scene: list(map(int, _timeline(scene))),
    "hashtag": lambda scene: sorted(
        {tag for tweet in _timeline(scene).values() for tag in tweet["tags"]}
    ),
    "unfollowed": _unfollowed,
    "followed": lambda scene: list(_feed(scene)["following_list"]),
    "author": lambda scene: sorted({tweet["username"] for tweet in _timeline(scene).values()}),
}
TICKET_DOMAINS: Mapping[str, Domain] = {
    "ticket_number": _tickets,
    "title": lambda scene: [title for title in _TITLES if title not in _used(scene)],
    "update": _updates,
    "agent": lambda scene: [
        f"{first.lower()}.{last.lower()}"
        for first, last in zip(scenario.FIRST_NAMES, scenario.LAST_NAMES, strict=False)
    ],
}
MESSAGES = scenario.ClassCatalogue(MESSAGE_API, _MESSAGES, MESSAGE_DOMAINS, make_workspace)
TWEETS = scenario.ClassCatalogue(TWITTER_API, _TWEETS, TWEET_DOMAINS, make_timeline)
TICKETS = scenario.ClassCatalogue(TICKET_API, _TICKETS, TICKET_DOMAINS, make_queue)

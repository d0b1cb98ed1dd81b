"""Recipes of the tweets: 14 tools.

Facts: `tw_in` (signed in). Things: `tweet` (the number of a tweet that one has posted).
"""

from __future__ import annotations

from functools import partial

from rods.composing.catalogue import Words
from worlds.bfcl.catalogue import social_worlds
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe
from worlds.bfcl.catalogue.social_worlds import TWEETS

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES)
_member = partial(recipe, RECIPES, makes="tw_in")
_SIGN_IN = "authenticate_twitter username=name:handle password=password:twitter_password"

_add(
    "tw_login",
    _SIGN_IN,
    "sign me in to Twitter as {name} with the password {password}",
    "log in to my Twitter account, the user name is {name} and the password {password}",
    unless="tw_in",
    makes="tw_in",
)
_add(
    "tw_login_post",
    f"{_SIGN_IN}; post_tweet content=post:post",
    "sign in to Twitter as {name}, password {password}, and (post|tweet) '{post}'",
    unless="tw_in",
    makes="tw_in",
    gives="tweet=1.id/",
    ends="tw_shared",
)
_add(
    "tw_login_post_tags",
    f"{_SIGN_IN}; post_tweet content=post:post tags=tags:tags",
    "sign in to Twitter as {name}, password {password}, and (post|tweet) '{post}' with {tags}",
    unless="tw_in",
    makes="tw_in",
    gives="tweet=1.id/",
    ends="tw_shared",
)
_add(
    "tw_status",
    "posting_get_login_status",
    "(check|tell me) whether I am (signed in to|logged in to) Twitter",
    "see if Twitter has me logged in",
    "find out whether my Twitter session is open",
)
_member(
    "tw_post",
    "post_tweet content=post:post",
    "(post|publish) a tweet that says '{post}'",
    "(tweet|share on Twitter): '{post}'",
    gives="tweet=0.id/",
    ends="tw_shared",
)
_member(
    "tw_post_tags",
    "post_tweet content=post:post tags=tags:tags",
    "(post|publish) the tweet '{post}' (with|under) {tags}",
    "tweet '{post}' and (add|use) {tags}",
    gives="tweet=0.id/",
    ends="tw_shared",
)
_member(
    "tw_post_mention",
    "post_tweet content=post:post mentions=mentions:mentions",
    "(post|publish) the tweet '{post}' mentioning {mentions}",
    "tweet '{post}' and tag {mentions} in it",
    gives="tweet=0.id/",
    ends="tw_shared",
)
_member(
    "tw_post_all",
    "post_tweet content=post:post tags=tags:tags mentions=mentions:mentions",
    "(post|publish) '{post}' on Twitter with {tags}, mentioning {mentions}",
    gives="tweet=0.id/",
    ends="tw_shared",
)
_member(
    "tw_post_comment",
    "post_tweet content=post:post; comment tweet_id=0.id comment_content=reply:reply",
    "(post|publish) a tweet that says '{post}' and reply to it with '{reply}'",
    "tweet '{post}', then add '{reply}' underneath",
    gives="tweet=0.id/",
    ends="tw_shared",
)
_member(
    "tw_comment",
    "comment tweet_id=^tweet comment_content=reply:reply",
    "(write|leave) '{reply}' under {tweet}",
    "reply to {tweet} with '{reply}'",
)
_add(
    "tw_retweet",
    "retweet tweet_id=^tweet",
    "(share|repost) {tweet} (again|once more)",
    "(pass {tweet} on|push {tweet}) to my followers (again|once more)",
    unless="tw_shared",
    makes="tw_in tw_shared",
)
_member(
    "tw_mention",
    "mention tweet_id=^tweet mentioned_usernames=mentions:mentions",
    "(tag|bring in) {mentions} on {tweet}",
    "add {mentions} to the people that {tweet} is about",
)
_member("tw_show", "get_tweet tweet_id=^tweet", "(show|open) {tweet} (for me|so that I can check it)")
_member(
    "tw_replies",
    "get_tweet_comments tweet_id=^tweet",
    "(show|list) me (the replies to|what people wrote under) {tweet}",
)
_member(
    "tw_old_comment",
    "comment tweet_id=number:tweet_number comment_content=reply:reply",
    "(write|leave) '{reply}' under the tweet {number}",
    "reply to the tweet {number}: '{reply}'",
)
_member(
    "tw_old_retweet",
    "retweet tweet_id=number:tweet_number",
    "(share|repost) the tweet {number}",
    "pass the tweet {number} on to my followers",
)
_member(
    "tw_old_mention",
    "mention tweet_id=number:tweet_number mentioned_usernames=mentions:mentions",
    "(tag|bring in) {mentions} on the tweet {number}",
)
_add(
    "tw_old_show",
    "get_tweet tweet_id=number:tweet_number",
    "(show|open) the tweet {number}",
    "tell me what the tweet {number} says",
)
_add(
    "tw_old_replies",
    "get_tweet_comments tweet_id=number:tweet_number",
    "(show|list) (the replies|all replies) to the tweet {number}",
)
_member(
    "tw_follow",
    "follow_user username_to_follow=user:unfollowed",
    "(follow|start following) {user} on Twitter",
    "make me a follower of {user}",
)
_member(
    "tw_unfollow",
    "unfollow_user username_to_unfollow=user:followed",
    "(stop following|unfollow) {user} on Twitter",
    "take {user} off the list of people I follow",
)
_member(
    "tw_following",
    "list_all_following",
    "(list|show me) (everyone|everybody|all the people) I follow on Twitter",
    "tell me whom I am following",
)
_member(
    "tw_follow_show",
    "follow_user username_to_follow=user:unfollowed; list_all_following",
    "follow {user} on Twitter and then show me everyone I follow",
)
_add(
    "tw_user",
    "get_user_tweets username=author:author",
    "(show|list) me (the tweets of|everything tweeted by) {author}",
    "(go through|pull up) what {author} has tweeted",
)
_add(
    "tw_user_stats",
    "get_user_stats username=author:author",
    "(show|give) me the (Twitter statistics|numbers) of {author}",
    "tell me how active {author} is on Twitter",
)
_add(
    "tw_search",
    "search_tweets keyword=hashtag:hashtag",
    "(find|look for|search for) tweets (with|under) {hashtag}",
    "see what was tweeted under {hashtag}",
)
_member(
    "tw_search_retweet",
    "search_tweets keyword=hashtag:hashtag; retweet tweet_id=0.0.id",
    "(find|look for) tweets under {hashtag} and (share|repost) the first (one|hit)",
)
_member(
    "tw_search_comment",
    "search_tweets keyword=hashtag:hashtag; comment tweet_id=0.0.id comment_content=reply:reply",
    "(find|look for) tweets under {hashtag} and write '{reply}' under the first (one|hit)",
)
PART = Part(
    TWEETS,
    RECIPES,
    domains=social_worlds.TWEET_DOMAINS,
    make=social_worlds.make_timeline,
    things={"tweet": Words(("the tweet I just posted", "my new tweet"), ("that tweet", "that post", "the tweet"))},
    vague={
        "user": ("someone interesting",),
        "author": ("somebody I know",),
        "tags": ("a fitting tag",),
        "number": ("I have in mind",),
    },
    supply={
        "user": ("I mean {value}.", "It is {value}."),
        "author": ("I mean {value}.", "The user is {value}."),
        "tags": ("Use {value}.", "Take {value}."),
        "number": ("I mean {value}.", "It is number {value}."),
    },
    families={"user": "unfollowed followed", "number": "tweet_number"},
    siblings=(
        ("comment", "retweet"),
        ("follow_user", "unfollow_user"),
        ("get_tweet", "get_tweet_comments"),
        ("get_user_tweets", "search_tweets"),
    ),
    common="authenticate_twitter",
)

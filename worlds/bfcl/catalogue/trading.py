"""Recipes of the trading account: 20 tools.

Facts: `tr_in` (the account was used, so one is logged in), `tr_out` (one has logged out), `tr_empty` (no money left).
Things: `stock` (a symbol), `quote` (its price), `order` (a number).
"""

from __future__ import annotations

from functools import partial

from rods.composing.catalogue import Words
from worlds.bfcl.catalogue import trading_worlds
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe
from worlds.bfcl.catalogue.phrases import story
from worlds.bfcl.catalogue.trading_worlds import GROUP

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES)


def _member(name: str, steps: str, *phrases: str, unless: str = "", gives: str = "", ends: str = "") -> None:
    """A recipe for which one must be logged in."""
    _add(name, steps, *phrases, unless=f"{unless} tr_out", makes="tr_in", gives=gives, ends=ends)


# --- the session
_add(
    "tr_login",
    "trading_login username=trader:trader password=password:trading_password",
    "log me in to my trading account, the user name is {trader} and the password {password}",
    "sign in to trading as {trader} with the password {password}",
    unless="tr_in tr_out",
    makes="tr_in",
)
_add(
    "tr_login_account",
    "trading_login username=trader:trader password=password:trading_password; get_account_info",
    "log me in to my trading account as {trader} with the password {password} and show me the account details",
    unless="tr_in tr_out",
    makes="tr_in",
)
_add(
    "tr_logout",
    "trading_logout",
    "log me out of (my trading account|the trading system)",
    "(close|end) my trading session",
    "sign out of trading",
    "leave the trading system, so that nobody else can use it",
    when="tr_in",
    unless="tr_out",
    makes="tr_out",
)
_add(
    "tr_status",
    "trading_get_login_status",
    "(check|tell me) whether I am (logged in to|signed in to) my trading account",
    "see if my trading session is (active|still active)",
    "find out if I have an open session for trading",
)
_add(
    "tr_time",
    "get_current_time",
    "(tell me|check) (what time it is now|the current time)",
    "look up how late it is",
    "see what the clock of the exchange says",
)
# --- quotes
_add(
    "tr_quote",
    "get_stock_info symbol=symbol:symbol",
    "(show|get) me the (latest figures|current numbers|stock details) (of|for) {symbol}",
    "(tell me|check|look up) how {symbol} is (doing|trading)",
    "pull up the price and the averages of {symbol}",
    "have a look at {symbol} and give me its numbers",
    "(find out|see) what {symbol} trades at",
    gives="stock=symbol:symbol/symbol quote=0.price/symbol",
)
_add(
    "tr_symbol",
    "get_symbol_by_name name=company:company",
    "(tell me|look up|find) the (ticker|stock symbol) of {company}",
    "find out under which symbol {company} is traded",
    gives="stock=0.symbol/company",
    ends="quote",
)
_add(
    "tr_quote_name",
    "get_symbol_by_name name=company:company; get_stock_info symbol=0.symbol",
    "(show|get) me the (latest figures|current numbers|stock details) (of|for) {company}",
    "(tell me|check|look up) how the shares of {company} are (doing|trading)",
    gives="stock=0.symbol/company quote=1.price/company",
)
_add(
    "tr_quote_it",
    "get_stock_info symbol=^stock",
    "(show|get) me the (latest figures|current numbers) (of|for) {stock}",
    "(tell me|check) how {stock} is (doing|trading) (now|)",
    gives="quote=0.price/",
    unless="quote",
)
_add(
    "tr_time_quote",
    "get_current_time; get_stock_info symbol=symbol:symbol",
    "(tell me|check) the current time and (show|get) me the figures of {symbol}",
    gives="stock=symbol:symbol/symbol quote=1.price/symbol",
)
# --- orders
for _type, _verb in (("Buy", "buy"), ("Sell", "sell")):
    _order = f'place_order order_type=!"{_type}"'
    _member(
        f"tr_{_verb}",
        f"{_order} symbol=symbol:symbol price=bid:bid amount=shares:shares",
        f"{_verb} {{shares}} shares of {{symbol}} at {{bid}} dollars (each|a share|per share)",
        f"(place|put in) an order to {_verb} {{shares}} shares of {{symbol}} at {{bid}} dollars",
        unless="tr_empty" if _type == "Buy" else "",
        gives="order=0.order_id/symbol stock=symbol:symbol/symbol",
        ends="quote",
    )
    _member(
        f"tr_{_verb}_it",
        f"{_order} symbol=^stock price=bid:bid amount=shares:shares",
        f"{_verb} {{shares}} shares of {{stock}} at {{bid}} dollars (each|a share|per share)",
        f"(place|put in) an order to {_verb} {{shares}} shares of {{stock}} at {{bid}} dollars",
        unless="tr_empty" if _type == "Buy" else "",
        gives="order=0.order_id/",
    )
    _member(
        f"tr_{_verb}_now",
        f"get_stock_info symbol=symbol:symbol; {_order} symbol=symbol:symbol price=0.price amount=shares:shares",
        f"{_verb} {{shares}} shares of {{symbol}} at (the current|its current|today's) price, look it up first",
        f"check the price of {{symbol}} and {_verb} {{shares}} shares at (that price|just that price)",
        unless="tr_empty" if _type == "Buy" else "",
        gives="order=1.order_id/symbol stock=symbol:symbol/symbol quote=0.price/symbol",
    )
    _member(
        f"tr_{_verb}_quoted",
        f"{_order} symbol=^stock price=^quote amount=shares:shares",
        f"{_verb} {{shares}} shares of {{stock}} at {{quote}}",
        f"place an order to {_verb} {{shares}} shares of {{stock}} at {{quote}}",
        f"put in a {_verb} order: {{shares}} shares of {{stock}}, at {{quote}}",
        f"{_verb} {{shares}} shares of {{stock}}, {{quote}} is fine with me",
        unless="tr_empty" if _type == "Buy" else "",
        gives="order=0.order_id/",
    )
    _member(
        f"tr_{_verb}_show",
        f"{_order} symbol=symbol:symbol price=bid:bid amount=shares:shares; get_order_details order_id=0.order_id",
        f"{_verb} {{shares}} shares of {{symbol}} at {{bid}} dollars (each|a share) and show me that order",
        unless="tr_empty" if _type == "Buy" else "",
        gives="order=0.order_id/symbol stock=symbol:symbol/symbol",
        ends="quote",
    )
    _member(
        f"tr_{_verb}_name_now",
        "get_symbol_by_name name=company:company; get_stock_info symbol=0.symbol;"
        f" {_order} symbol=0.symbol price=1.price amount=shares:shares",
        f"{_verb} {{shares}} shares of {{company}} at (the current|today's) price, look up symbol and price first",
        f"find out what {{company}} trades at and {_verb} {{shares}} of its shares at that price",
        unless="tr_empty" if _type == "Buy" else "",
        gives="order=2.order_id/company stock=0.symbol/company quote=1.price/company",
    )
    _member(
        f"tr_{_verb}_name_show",
        "get_symbol_by_name name=company:company; get_stock_info symbol=0.symbol;"
        f" {_order} symbol=0.symbol price=1.price amount=shares:shares; get_order_details order_id=2.order_id",
        f"look up {{company}}, {_verb} {{shares}} of its shares at the current price and show me (that|the) order",
        unless="tr_empty" if _type == "Buy" else "",
        gives="order=2.order_id/company stock=0.symbol/company quote=1.price/company",
    )
_member(
    "tr_order",
    "get_order_details order_id=^order",
    "(show|give) me (the details of|all details of) {order}",
    "(check|tell me) what became of {order}",
)
_member(
    "tr_cancel",
    "cancel_order order_id=^order",
    "(cancel|withdraw|call off) {order}",
    "(cancel|drop) {order}, I changed my mind",
    "undo {order} while it is still open",
    "see to it that {order} is not carried out",
    ends="order",
)
_member(
    "tr_order_cancel",
    "get_order_details order_id=^order; cancel_order order_id=^order",
    "show me the details of {order} and then cancel (it|that order)",
    ends="order",
)
_member(
    "tr_old_order",
    "get_order_details order_id=number:order_number",
    "(show|give) me the details of order {number}",
    "(check|look up) the order with the number {number}",
)
_member(
    "tr_history",
    "get_order_history",
    "(show|list) (all my orders|my order history|every order I placed)",
    "(list|give me) the numbers of all orders (in my account|so far)",
)
_member(
    "tr_history_first",
    "get_order_history; get_order_details order_id=0.history.0",
    "go through my order history and (show me|give me) the details of the order that comes first",
    "(show me|look up) the details of the order that is listed first in my order history",
)
# --- the watchlist
_member(
    "tr_watched",
    "get_watchlist",
    "(show|tell) me (what is on my watchlist|which stocks are on my watchlist)",
    "list (all stocks on my watchlist|my watchlist for me)",
    "(open|read out) my watchlist (for me|)",
)
_member(
    "tr_watched_quote",
    "get_watchlist; get_stock_info symbol=0.watchlist.0",
    "open my watchlist and (show me|get me) the figures of the first stock on it",
    "(tell me|check) how the first stock on my watchlist is doing",
    "look at the top of my watchlist and get me the details of that stock",
    "read my watchlist and quote me whichever stock stands first",
    gives="stock=0.watchlist.0/the-stock quote=1.price/",
)
_member(
    "tr_watched_buy",
    'get_watchlist; get_stock_info symbol=0.watchlist.0; place_order order_type=!"Buy" symbol=0.watchlist.0'
    " price=1.price amount=shares:shares",
    "take the first stock on my watchlist, check its price and buy {shares} shares at that price",
    "buy {shares} shares of whatever comes first on my watchlist, at the current price",
    unless="tr_empty",
    gives="order=2.order_id/ stock=0.watchlist.0/the-stock quote=1.price/",
)
_member(
    "tr_watched_drop",
    "get_watchlist; remove_stock_from_watchlist symbol=0.watchlist.0",
    "open my watchlist and (remove|drop) the first stock on it",
)
_member(
    "tr_watch",
    "add_to_watchlist stock=symbol:unwatched",
    "(add {symbol} to|put {symbol} on) my watchlist",
    "keep an eye on {symbol}, put it on my watchlist",
    gives="stock=symbol:unwatched/symbol",
    ends="quote",
)
_member(
    "tr_watch_it",
    "add_to_watchlist stock=^stock",
    "(add {stock} to|put {stock} on) my watchlist",
    "track {stock} for me from now on",
    "make {stock} a part of my watchlist",
    "keep an eye on {stock} for me, by way of my watchlist",
)
_member(
    "tr_watch_name",
    "get_symbol_by_name name=company:unwatched_company; add_to_watchlist stock=0.symbol",
    "(add {company} to|put {company} on) my watchlist, you will need the symbol",
    "find the symbol of {company} and put it on my watchlist",
    gives="stock=0.symbol/company",
    ends="quote",
)
_member(
    "tr_unwatch",
    "remove_stock_from_watchlist symbol=symbol:watched",
    "(remove|take|drop) {symbol} from my watchlist",
    "take {symbol} off my watchlist",
    "stop tracking {symbol} for me",
    "clear {symbol} out of my watchlist, I lost interest in it",
)
_member(
    "tr_watch_show",
    "add_to_watchlist stock=symbol:unwatched; get_watchlist",
    "put {symbol} on my watchlist and (show|read) me the whole list",
    gives="stock=symbol:unwatched/symbol",
    ends="quote",
)
_member(
    "tr_watched_notify",
    "get_watchlist; notify_price_change stocks=0.watchlist threshold=threshold:threshold",
    "check my watchlist and (tell me|let me know) if anything on it moved by {threshold} percent or more",
)
_member(
    "tr_sector_watch",
    "get_available_stocks sector=sector:sector; add_to_watchlist stock=0.stock_list.0",
    "list the stocks of the {sector} sector and put the first of them on my watchlist",
    gives="stock=0.stock_list.0/the-stock",
    ends="quote",
)
# --- the market
_add(
    "tr_sector",
    "get_available_stocks sector=sector:sector",
    "(list|show me) the (stocks|available stocks) (of|in) the {sector} sector",
    "(tell me|find out) what I can buy in the {sector} sector",
)
_add(
    "tr_sector_quote",
    "get_available_stocks sector=sector:sector; get_stock_info symbol=0.stock_list.0",
    "list the stocks of the {sector} sector and (show me|get me) the figures of the first one",
    "(show me|check) how the first stock listed for the {sector} sector is doing",
    "look at the {sector} sector and tell me what its first listed stock costs",
    "see what is traded in the {sector} sector and get me the numbers of whatever comes first",
    gives="stock=0.stock_list.0/the-stock quote=1.price/",
)
_add(
    "tr_sector_filter",
    "get_available_stocks sector=sector:sector; filter_stocks_by_price stocks=0.stock_list min_price=low:low "
    "max_price=high:high",
    "find the stocks of the {sector} sector that cost between {low} and {high} dollars",
    "list the {sector} sector and keep only what trades between {low} and {high} dollars",
    short=True,
)
_add(
    "tr_sector_notify",
    "get_available_stocks sector=sector:sector; notify_price_change stocks=0.stock_list threshold=threshold:threshold",
    "check all stocks of the {sector} sector and tell me if any of them moved by {threshold} percent or more",
    short=True,
)
_add(
    "tr_filter",
    "filter_stocks_by_price stocks=basket:basket min_price=low:low max_price=high:high",
    "(tell me|find out) which of {basket} cost between {low} and {high} dollars",
    "go through {basket} and keep those between {low} and {high} dollars",
)
_add(
    "tr_notify",
    "notify_price_change stocks=basket:basket threshold=threshold:threshold",
    "(tell me|check) whether any of {basket} moved by {threshold} percent or more",
    "watch {basket} for changes of at least {threshold} percent",
    "see which of {basket} went up or down by {threshold} percent or more",
    "find out if there was a move of {threshold} percent or more in {basket}",
)
# --- money
_member(
    "tr_account",
    "get_account_info",
    "(show|give) me (my account details|the details of my account)",
    "(tell me|check) the balance (of|in) my trading account",
)
_member(
    "tr_fund",
    "fund_account amount=deposit:deposit",
    "(add {deposit} dollars to|transfer {deposit} dollars to|put {deposit} dollars into) my trading account",
    "fund my account with {deposit} dollars",
    "top up my trading account by {deposit} dollars",
    "move {deposit} dollars from my bank to my trading account",
)
_member(
    "tr_fund_account",
    "fund_account amount=deposit:deposit; get_account_info",
    "(add {deposit} dollars to|put {deposit} dollars into) my trading account and show me the new (balance|details)",
)
_member(
    "tr_withdraw",
    "withdraw_funds amount=withdrawal:withdrawal",
    "(withdraw|take out) {withdrawal} dollars from my (trading account|account)",
    "pay out {withdrawal} dollars from my trading account",
    "move {withdrawal} dollars from my trading account to my bank",
    "cash out {withdrawal} dollars of my trading money",
    unless="tr_empty",
)
_add(
    "tr_withdraw_all",
    "get_account_info; withdraw_funds amount=0.balance",
    "(check|look up) the balance of my trading account and withdraw (all of it|everything)",
    unless="tr_empty tr_out",
    makes="tr_in tr_empty",
)
_member(
    "tr_transactions",
    "get_transaction_history",
    "(show me all transactions of my account|list my transaction history)",
    "(list|go through) the deposits and withdrawals of my account",
    "look up what I have paid in and taken out so far",
    "see what has moved in and out of my trading account",
)
_member(
    "tr_transactions_between",
    "get_transaction_history start_date=start:start end_date=end:end",
    "(show me the|list all) transactions between {start} and {end}",
    "(list|look up) what was paid in or out from {start} to {end}",
)
_member(
    "tr_transactions_since",
    "get_transaction_history start_date=start:start",
    "(show me the|list all) transactions since {start}",
)

PART = Part(
    GROUP,
    RECIPES,
    domains=trading_worlds.DOMAINS,
    make=trading_worlds.make,
    pad=trading_worlds.pad,
    stories=(
        story(
            "portfolio",
            GROUP,
            (
                "I want to put my portfolio in order (today|this week).",
                "I have some time for my investments this (afternoon|evening).",
                "{friend} keeps telling me to look after my investments.",
                "It's time to review my (positions|holdings).",
                "The quarter is over, so let's look at my account.",
            ),
            (
                "That gives me a clearer picture.",
                "Let's go on with the portfolio.",
                "{friend} suggested this next step.",
                "(Alright|Okay), back to the market.",
                "(Good|Fine), that fits my plan.",
                "I had something else in mind, too.",
            ),
            (
                "Then I'm done with trading for (today|now).",
                "One last move for today.",
                "That should round off my portfolio.",
                "{friend} will approve of this one.",
            ),
        ),
        story(
            "cautious",
            GROUP,
            (
                "I'm new to trading and want to take it slowly.",
                "The market makes me nervous, so let's be careful.",
                "I've been saving for (a while|two years) and want to try this out.",
                "I read about the market all (week|night) and want to act on it.",
            ),
            (
                "(Okay|I see), that makes sense.",
                "I think I'm getting the hang of it.",
                "Let me try something else.",
                "Good.",
                "That's less scary than I thought.",
            ),
            (
                "One more, then I'll stop for today.",
                "That's enough after this.",
                "Last request for now.",
            ),
        ),
    ),
    things={
        "stock": Words(("{noun}",), ("that stock", "the same stock")),
        "quote": Words(("the price you just found", "the price you looked up"), ("that price", "exactly that price")),
        "order": Words(("the order I just placed",), ("that order", "the order")),
    },
    vague={
        "symbol": ("one of the stocks", "a stock that I like"),
        "company": ("one of the companies I follow", "a company that I like"),
        "shares": ("some", "a few"),
        "money": ("some",),
        "sector": ("more interesting",),
        "threshold": ("quite a few",),
    },
    supply={
        "symbol": ("I mean {value}.", "The stock is {value}.", "Take {value}."),
        "company": ("I mean {value}.", "The company is {value}."),
        "shares": ("Make it {value} shares.", "I mean {value}.", "{value} shares, please."),
        "money": ("Make it {value} dollars.", "I mean {value} dollars."),
        "sector": ("I mean {value}.", "The sector is {value}."),
        "threshold": ("I mean {value} percent.", "Take {value} percent."),
    },
    again={"symbol": ("the same stock",), "company": ("the same company",)},
    families={
        "symbol": "watched unwatched other_symbol",
        "company": "unwatched_company",
        "money": "deposit withdrawal",
    },
    siblings=(
        ("fund_account", "withdraw_funds"),
        ("get_order_history", "get_transaction_history"),
        ("cancel_order", "get_order_details"),
        ("add_to_watchlist", "remove_stock_from_watchlist"),
        ("get_stock_info", "get_symbol_by_name"),
    ),
    swaps={"filter_stocks_by_price": ("min_price", "max_price"), "get_transaction_history": ("start_date", "end_date")},
    common="trading_login get_stock_info",
)

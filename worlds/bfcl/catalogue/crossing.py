"""Recipes that carry a result from one API class into another: what a file says into a tweet, a price into a sum."""

from __future__ import annotations

from functools import partial

from worlds.bfcl.catalogue.notation import Part, Recipes, recipe

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES)
_brief = partial(recipe, RECIPES, short=True)  # of what is padded in long contexts
_SEND = "get_user_id user=name:colleague"

# --- files
_WC = 'wc file_name=text:text_file mode=!"c"; wc file_name=other:other_text mode=!"c"'
_brief(
    "x_files_difference",
    f"{_WC}; subtract a=0.count b=1.count",
    "count the characters of {text} and of {other} and (subtract the second number from the first|tell me first "
    "minus second)",
    gives="number=2.result/",
    unless="bare",
)
_brief(
    "x_files_sum",
    f"{_WC}; add a=0.count b=1.count",
    "count the characters of {text} and of {other} and (add both numbers up|tell me how many that makes together)",
    gives="number=2.result/",
    unless="bare",
)
_brief(
    "x_files_share",
    f"{_WC}; percentage part=0.count whole=1.count",
    "count the characters of {text} and of {other} and tell me how many percent of the second number the first one is",
    gives="number=2.result/",
    unless="bare",
)
_brief(
    "x_file_divide",
    'wc file_name=text:text_file mode=!"c"; divide a=0.count b=b:operand',
    "count the characters of {text} and divide (that number|the count) by {b}",
    gives="number=1.result/ file=text:text_file/text",
    unless="bare",
)
_READ = "cat file_name=brief:brief"
_LAST = "tail file_name=text:text_file lines=!1"
_LINE = "grep file_name=text:text_file pattern=pattern:lone_pattern"
_brief(
    "x_file_tweet",
    f"{_READ}; post_tweet content=0.file_content",
    "(read|open) {brief} and (tweet what it says|post its text on Twitter)",
    gives="tweet=1.id/ file=brief:brief/brief",
    unless="bare",
    ends="tw_shared",
    makes="tw_in",
)
_brief(
    "x_last_tweet",
    f"{_LAST}; post_tweet content=0.last_lines tags=tags:tags",
    "(tweet|post on Twitter) the last line of {text} with {tags}",
    gives="tweet=1.id/ file=text:text_file/text",
    unless="bare",
    ends="tw_shared",
    makes="tw_in",
)
_brief(
    "x_line_tweet",
    f"{_LINE}; post_tweet content=0.matching_lines.0",
    "find the line of {text} that mentions '{pattern}' and (tweet it|post it on Twitter)",
    gives="tweet=1.id/ file=text:text_file/text",
    unless="bare",
    ends="tw_shared",
    makes="tw_in",
)
_brief(
    "x_file_send",
    f"{_READ}; {_SEND}; send_message receiver_id=1.user_id message=0.file_content",
    "(read|open) {brief} and send its text to {name}",
    "message {name} with what {brief} says",
    gives="written=1.user_id/name person=1.user_id/name file=brief:brief/brief",
    unless="bare",
    makes="ms_in",
)
_brief(
    "x_file_send_id",
    f"{_READ}; send_message receiver_id=receiver:colleague_id message=0.file_content",
    "(read|open) {brief} and send its text to the user {receiver}",
    gives="written=receiver:colleague_id/receiver file=brief:brief/brief",
    unless="bare",
    makes="ms_in",
)
_brief(
    "x_last_send",
    f"{_LAST}; send_message receiver_id=receiver:colleague_id message=0.last_lines",
    "send the last line of {text} to the user {receiver}",
    gives="written=receiver:colleague_id/receiver file=text:text_file/text",
    unless="bare",
    makes="ms_in",
)
_add(
    "x_path_send",
    "pwd; send_message receiver_id=receiver:colleague_id message=0.current_working_directory",
    "send the full path of (this folder|the current directory) to the user {receiver}",
    gives="written=receiver:colleague_id/receiver",
    makes="ms_in",
)
_brief(
    "x_file_ticket",
    f"{_READ}; create_ticket title=title:title description=0.file_content",
    "(open|file) a ticket called '{title}' and take the text of {brief} as its description",
    gives="ticket=1.id/title file=brief:brief/brief",
    unless="bare tk_out",
    makes="tk_in",
)
_brief(
    "x_last_ticket",
    f"{_LAST}; create_ticket title=title:title description=0.last_lines priority=priority:priority",
    "(open|file) a ticket called '{title}' with priority {priority}, described by the last line of {text}",
    gives="ticket=1.id/title file=text:text_file/text",
    unless="bare tk_out",
    makes="tk_in",
)
# --- the car
_add(
    "x_miles_km",
    'imperial_si_conversion value=^miles unit_in=!"miles" unit_out=!"km"',
    "(tell me|work out) how many kilometers {miles} is",
    "convert {miles} from miles to kilometers",
    gives="number=0.result/",
)
_add(
    "x_speed_round",
    "get_current_speed; round_number number=0.currentSpeed decimal_places=digits:places",
    "(check|read off) my current speed and round it to {digits} decimal places",
    gives="number=1.result/",
)
_add(
    "x_weather_fahrenheit",
    'get_outside_temperature_from_google; imperial_si_conversion value=0.outsideTemperature unit_in=!"celsius"'
    ' unit_out=!"fahrenheit"',
    "ask Google for the temperature outside and convert it from Celsius to Fahrenheit",
    gives="number=1.result/",
)
_add(
    "x_gallons_round",
    "round_number number=^gallons decimal_places=digits:places",
    "round {gallons} to {digits} decimal places",
    gives="number=0.result/",
)
_SHOP = "find_nearest_tire_shop"
_add(
    "x_shop_send",
    f"{_SHOP}; {_SEND}; send_message receiver_id=1.user_id message=0.shopLocation",
    "(find|look up) the nearest tire shop and send its address to {name}",
    gives="written=1.user_id/name person=1.user_id/name shop=0.shopLocation/",
    makes="ms_in",
)
_add(
    "x_shop_send_id",
    f"{_SHOP}; send_message receiver_id=receiver:colleague_id message=0.shopLocation",
    "(find|look up) the nearest tire shop and message its address to the user {receiver}",
    gives="written=receiver:colleague_id/receiver shop=0.shopLocation/",
    makes="ms_in",
)
_add(
    "x_shop_tweet",
    f"{_SHOP}; post_tweet content=0.shopLocation tags=tags:tags",
    "(find|look up) the nearest tire shop and tweet its address with {tags}",
    gives="tweet=1.id/ shop=0.shopLocation/",
    ends="tw_shared",
    makes="tw_in",
)
_add(
    "x_shop_ticket",
    f"{_SHOP}; create_ticket title=title:title description=0.shopLocation priority=priority:priority",
    "find the nearest tire shop and file a ticket called '{title}', priority {priority}, with that address as "
    "its description",
    gives="ticket=1.id/title shop=0.shopLocation/",
    unless="tk_out",
    makes="tk_in",
)
# --- trading
_add(
    "x_quote_times",
    "get_stock_info symbol=symbol:symbol; multiply a=0.price b=shares:shares",
    "(tell me|work out) what {shares} shares of {symbol} cost at the current price",
    gives="number=1.result/ stock=symbol:symbol/symbol quote=0.price/symbol",
)
_add(
    "x_quote_fund",
    "get_stock_info symbol=symbol:symbol; multiply a=0.price b=shares:shares; fund_account amount=1.result",
    "work out what {shares} shares of {symbol} cost now and put exactly that much into my trading account",
    gives="number=1.result/ stock=symbol:symbol/symbol quote=0.price/symbol",
    unless="tr_out",
    makes="tr_in",
)
_add(
    "x_quotes_difference",
    "get_stock_info symbol=symbol:symbol; get_stock_info symbol=other:other_symbol; subtract a=0.price b=1.price",
    "(tell me|work out) how much more {symbol} costs than {other}, a negative number if it is cheaper",
    gives="number=2.result/",
)
_add(
    "x_quote_multiply",
    "multiply a=^quote b=b:operand",
    "multiply {quote} by {b}",
    gives="number=0.result/",
)
_add(
    "x_balance_divide",
    "get_account_info; divide a=0.balance b=b:operand",
    "look up the balance of my trading account and divide it by {b}",
    gives="number=1.result/",
    unless="tr_out",
    makes="tr_in",
)
_NOTIFY = "notify_price_change stocks=basket:basket threshold=threshold:threshold"
_add(
    "x_notify_send",
    f"{_NOTIFY}; {_SEND}; send_message receiver_id=1.user_id message=0.notification",
    "check whether any of {basket} moved by {threshold} percent or more and send {name} the notification",
    gives="written=1.user_id/name person=1.user_id/name",
    makes="ms_in",
)
_add(
    "x_notify_send_id",
    f"{_NOTIFY}; send_message receiver_id=receiver:colleague_id message=0.notification",
    "check whether any of {basket} moved by {threshold} percent or more and message the outcome to the user {receiver}",
    gives="written=receiver:colleague_id/receiver",
    makes="ms_in",
)
_add(
    "x_notify_tweet",
    f"{_NOTIFY}; post_tweet content=0.notification tags=tags:tags",
    "check whether any of {basket} moved by {threshold} percent or more and tweet the outcome with {tags}",
    gives="tweet=1.id/",
    ends="tw_shared",
    makes="tw_in",
)
_add(
    "x_notify_ticket",
    f"{_NOTIFY}; create_ticket title=title:title description=0.notification",
    "check whether any of {basket} moved by {threshold} percent or more and file the outcome as a ticket called "
    "'{title}'",
    gives="ticket=1.id/title",
    unless="tk_out",
    makes="tk_in",
)
_add(
    "x_symbol_send",
    "get_symbol_by_name name=company:company; send_message receiver_id=receiver:colleague_id message=0.symbol",
    "find the stock symbol of {company} and send it to the user {receiver}",
    gives="written=receiver:colleague_id/receiver stock=0.symbol/company",
    ends="quote",
    makes="ms_in",
)
_add(
    "x_symbol_tweet",
    "get_symbol_by_name name=company:company; post_tweet content=0.symbol",
    "find the stock symbol of {company} and tweet just that",
    gives="tweet=1.id/ stock=0.symbol/company",
    ends="quote tw_shared",
    makes="tw_in",
)
_add(
    "x_order_ticket",
    'place_order order_type=!"Buy" symbol=symbol:symbol price=bid:bid amount=shares:shares; get_order_details'
    " order_id=0.order_id; create_ticket title=title:title description=1.status priority=priority:priority",
    "buy {shares} shares of {symbol} at {bid} dollars, look the order up, and file a ticket called '{title}',"
    " priority {priority}, with the status of that order as its description",
    gives="order=0.order_id/symbol ticket=2.id/title stock=symbol:symbol/symbol",
    ends="quote",
    unless="tr_out tr_empty tk_out",
    makes="tr_in tk_in",
)
# --- travel
_add(
    "x_exchange_round",
    'compute_exchange_rate base_currency=currency:currency target_currency=!"USD" value=sum:foreign_sum;'
    " divide a=0.exchanged_value b=b:operand",
    "convert {sum} {currency} to US dollars and divide the amount by {b}",
    gives="number=1.result/ money=0.exchanged_value/",
)
_add(
    "x_money_times",
    "multiply a=^money b=b:operand",
    "multiply {money} by {b}",
    gives="number=0.result/",
)
_add(
    "x_airport_send",
    "get_nearest_airport_by_city location=city:city; send_message receiver_id=receiver:colleague_id "
    "message=0.nearest_airport",
    "find the airport nearest to {city} and send its code to the user {receiver}",
    gives="written=receiver:colleague_id/receiver airport=0.nearest_airport/city",
    makes="ms_in",
)
_add(
    "x_booking_send",
    "send_message receiver_id=receiver:colleague_id message=^booking",
    "send the booking number of {booking} to the user {receiver}",
    gives="written=receiver:colleague_id/receiver",
    makes="ms_in",
)
_add(
    "x_booking_ticket",
    "create_ticket title=title:title description=^booking priority=priority:priority",
    "file a ticket called '{title}' with priority {priority} and the booking number of {booking} as its description",
    gives="ticket=0.id/title",
    unless="tk_out",
    makes="tk_in",
)
_add(
    "x_booking_ticket_plain",
    "create_ticket title=title:title description=^booking",
    "open a ticket titled '{title}' that says nothing but the booking number of {booking}",
    gives="ticket=0.id/title",
    unless="tk_out",
    makes="tk_in",
)
_add(
    "x_booking_tweet",
    "post_tweet content=^booking tags=tags:tags",
    "tweet the booking number of {booking} with {tags}",
    gives="tweet=0.id/",
    ends="tw_shared",
    makes="tw_in",
)
_add(
    "x_airport_tweet",
    "get_nearest_airport_by_city location=city:city; post_tweet content=0.nearest_airport tags=tags:tags",
    "find the airport nearest to {city} and tweet its code with {tags}",
    gives="tweet=1.id/ airport=0.nearest_airport/city",
    ends="tw_shared",
    makes="tw_in",
)
PART = Part("", RECIPES)

"""BFCL's web search: prompts, results and verdicts are the harness's, on a web of this machine's
loopback; pages are read from public addresses alone, and a search that fails is nobody's
failure."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from encodings.aliases import aliases
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.agentic import compare_web
from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.search_player import answer
from bench.fixtures.web_stub import WebStub
from rods.calls import Call
from rods.environments.base import Result
from rods.errors import InfrastructureError
from rods.family.benchmarks.bfcl_search import web as tools
from rods.family.benchmarks.bfcl_search.benchmark import WebSearch
from rods.family.benchmarks.bfcl_search.web import Searcher, Web, WebTools, public
from rods.family.benchmarks.contract import chosen, slots
from rods.family.benchmarks.episodes import play
from rods.family.benchmarks.folder import Episode, Form, Settings
from rods.family.benchmarks.main import run
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.official_questions import Played, alike, official
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.family.benchmarks.policies import answer_in_a_call, earned, nothing, truth

PLAYER = "bench.fixtures.search_player"
KEY = "a-key-of-serpapi"
PART = ("--benchmark", "bfcl_search", "--tasks-per-type", 3, "--model", "m")


@pytest.fixture
def web(bfcl: Bfcl) -> Iterator[WebStub]:
    with WebStub(KEY) as made:
        yield made


@pytest.fixture(scope="module")
def stub(bfcl: Bfcl) -> Iterator[Stub]:
    with Stub(Script(answer=f"{PLAYER}:answer")) as made:
        yield made


def reading(
    web: WebStub, patience: float = 0.0, *, snippets: bool = True, everywhere: bool = True
) -> Searcher:
    reachable = (lambda address: True) if everywhere else public
    return Searcher(
        WebTools(), Web(f"{web.url}/search", KEY, patience, reachable), snippets=snippets
    )


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize(
    ("kind", "form"), [("web_search_base", "prompt"), ("web_search_no_snippet", "native")]
)
def test_prompts_and_results_are_the_harness_s(
    web: WebStub, bfcl: Bfcl, kind: str, form: Form
) -> None:
    told = {"search": f"{web.url}/search", "key": KEY}
    theirs = official(bfcl.file, kind, form, 3, PLAYER, **told)
    benchmark = WebSearch()
    asked = dict[str, list[Any]]()
    done = list[Episode]()
    tasks = [task for task in benchmark.tasks() if task.provenance["id"] in theirs]
    maker: Any = benchmark.maker(Settings({}, form=form))
    maker._web = Web(told["search"], KEY, 0.0, lambda address: True)
    asyncio.run(
        play(
            partial(Played, answer, asked),
            maker,
            slots(benchmark, tasks, 1),
            8,
            done.append,
            lambda: False,
        )
    )
    assert alike(benchmark, theirs, asked, done) == len(theirs) == 3
    read = str(theirs)
    for shown in (
        "# About",
        "About ",
        "Invalid URL",
        "Unsupported mode",
        "Failed to retrieve",
        "unread",
    ):
        assert shown in read
    assert bool(re.search(r"'body\\*'", read)) == (kind == "web_search_base")
    assert web.counts["page"] > 0


@pytest.mark.slow
def test_verdicts_are_the_packaged_scorer_s(bfcl: Bfcl) -> None:
    compared = compare_web(100)
    assert compared.different == [] and compared.made.total() == 400 and len(compared.made) == 18
    assert 0.4 < compared.valid.total() / 400 < 0.7


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("form", ["prompt", "native"])
def test_known_policies_get_what_is_due_without_a_web(bfcl: Bfcl, form: Form) -> None:
    benchmark = WebSearch()
    settings = Settings({}, part="all", types=tuple(benchmark.kinds), form=form)
    for policy, right in ((truth, 200), (answer_in_a_call, 0), (nothing, 0)):
        scores = earned(benchmark, settings, policy)["official"]
        assert len(scores) == 200 and sum(scores.values()) == right


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        *((one, True) for one in ("93.184.215.14", "8.8.8.8", "2606:4700::1111")),
        *(
            (one, False)
            for one in (
                "127.0.0.1",
                "10.0.0.1",
                "192.168.1.1",
                "169.254.169.254",
                "100.64.0.1",
                "0.0.0.0",
            )
        ),
        *(
            (one, False)
            for one in (
                "::1",
                "::",
                "fe80::1%eth0",
                "fd00::1",
                "::ffff:127.0.0.1",
                "::ffff:8.8.8.8",
            )
        ),
        *(
            (one, False)
            for one in (
                "64:ff9b::7f00:1",
                "2002:7f00:1::",
                "2001::1",
                "224.0.0.1",
                "255.255.255.255",
            )
        ),
    ],
)
def test_only_hosts_of_the_internet_are_public(address: str, is_public: bool) -> None:
    assert public(address) == is_public


def test_no_name_and_no_redirection_leads_to_this_machine(web: WebStub) -> None:
    """What is tried is counted where it would arrive."""
    port = web.url.rpartition(":")[2]
    closed = reading(web, everywhere=False)
    open_ = reading(web)
    for host in (
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "127.0.0.1.nip.io",
    ):
        told = _fetched(closed, f"http://{host}:{port}/page/1")
        assert "error" in json.loads(told.text), host
    assert web.counts["page"] == 0
    first_only = Searcher(WebTools(), Web("", KEY, 0.0, _once()), snippets=True)
    redirected = _fetched(
        first_only, f"{web.url}/to?url={web.url}/page/1".replace("127.0.0.1", "localhost", 1)
    )
    assert "no public address" in redirected.text and (web.counts["to"], web.counts["page"]) == (
        1,
        0,
    )
    assert "The <b>answer</b>" in _fetched(open_, f"{web.url}/to?url={web.url}/page/1").text


def _once() -> Any:
    left = [True]
    return lambda address: bool(left) and left.pop()


def _fetched(searcher: Searcher, url: str, mode: str = "raw") -> Result:
    return searcher.call(Call("fetch_url_content", {"url": url, "mode": mode}))


def test_pages_are_bounded_and_what_cannot_be_read_is_told(
    web: WebStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "PAGE_SECONDS", 1.0)
    searcher = reading(web)
    for page, said in (
        ("/big", "the page has more than 4 MB"),
        ("/gone", f"404 Client Error: Not Found for url: {web.url}/gone"),
        ("/written/nobody-knows", "unknown encoding"),
    ):
        assert said in json.loads(_fetched(searcher, web.url + page).text)["error"]
    assert json.loads(_fetched(searcher, f"{web.url}/latin").text) == {"content": "café"}
    assert not searcher.trouble


def test_a_page_is_read_in_encodings_of_the_web_alone(web: WebStub) -> None:
    searcher = reading(web)
    others = {"punycode", "idna", "utf_7", "utf_32", "unicode_escape", "raw_unicode_escape"}
    packed = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "uu_codec", "zlib_codec"}
    here = {"utf_8", "latin_1", "cp1252", "gb18030", "shift_jis", "koi8_r", "ascii"}
    names = {*aliases.values(), *others, *here} - {"mbcs", "oem"}
    answers = {
        name: json.loads(_fetched(searcher, f"{web.url}/written/{name}").text) for name in names
    }
    for name, told in answers.items():
        assert told.keys() <= {"content", "error"}
        assert name not in here or told == {"content": "a page"}
        assert name not in {*others, *packed} or "which is not read" in told["error"]
    assert not searcher.trouble


@pytest.mark.parametrize("mode", ["markdown", "truncate"])
def test_a_page_that_takes_too_long_to_read_is_given_up(
    web: WebStub, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(tools, "MOST_PAGE", 6 << 20)
    monkeypatch.setattr("rods.family.benchmarks.workers._SECONDS", 0.05)
    searcher = reading(web)
    assert (
        "error" in json.loads(_fetched(searcher, f"{web.url}/deep", mode).text)
        and not searcher.trouble
    )


def test_a_search_is_tried_again_and_then_ends_the_episode(
    web: WebStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call("search_engine_query", {"keywords": "tea"})
    web.faults = {503: 1.0}
    searcher = reading(web)
    with pytest.raises(InfrastructureError, match="the search: HTTP 503"):
        searcher.call(call)
    assert searcher.trouble
    monkeypatch.setattr(tools, "FIRST_WAIT", 0.001)
    web.faults = {0: 0.4, 429: 0.4}
    assert "'body': 'of tea'" in reading(web, patience=60.0).call(call).text
    assert "'body'" not in reading(web, patience=60.0, snippets=False).call(call).text
    assert web.counts["faults"] > 1
    web.faults = {}
    web.key = "another-key"
    began = web.counts["search"]
    with pytest.raises(
        InfrastructureError, match=r"the search: HTTP 401: .*Invalid API key \*\*\*"
    ):
        reading(web, patience=60.0).call(call)
    assert web.counts["search"] == began + 1, "a key that is refused is not sent again"


def test_a_policy_s_own_bad_search_is_its_own(web: WebStub) -> None:
    searcher = reading(web)
    for keywords in ("", "nobody knows"):
        told = searcher.call(Call("search_engine_query", {"keywords": keywords}))
        assert "Failed to retrieve the search results" in told.text and not searcher.trouble


@pytest.mark.slow
def test_an_evaluation_needs_a_key_and_goes_on_behind_a_search_that_fails(
    stub: Stub,
    web: WebStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("run", tmp_path / "e", "--url", stub.url, *PART)
    refused = evaluate(*asked, code=2)
    assert (
        "the web is searched with a key of SerpAPI of your own; name its variable by "
        "--search-key-env" in refused
    )
    told = (
        *asked,
        "--search-key-env",
        "MY_KEY",
        "--search-url",
        f"{web.url}/search",
        "--patience",
        1,
    )
    assert "environment variable MY_KEY" in evaluate(*told, code=2)
    monkeypatch.setenv("MY_KEY", KEY)
    refused = evaluate(*asked, "--search-key-env", "MY_KEY", "--search-url", "ftp://x", code=2)
    assert "--search-url begins with http:// or https://" in refused
    web.faults = {500: 1.0}
    assert run([*map(str, told)]) == 5
    said = capsys.readouterr().err
    assert "6 episodes left out: the search: HTTP 500" in said
    web.faults = {}
    played = evaluate(*told)
    assert played["complete"] and set(played["scores"]["all"]) == {
        "web_search_base",
        "web_search_no_snippet",
        "all",
    }
    assert played["settings"]["search"] == {"url": f"{web.url}/search"}
    assert KEY not in "".join(
        path.read_text() for path in (tmp_path / "e").rglob("*") if path.is_file()
    )
    checked = evaluate("check", tmp_path / "e")
    assert checked["equal"] == checked["episodes"] == 6
    files = sorted(
        path.name
        for path in (tmp_path / "e" / "bfcl_search" / "result" / "m" / "agentic").iterdir()
    )
    assert files == [f"BFCL_v4_{kind}_result.json" for kind in WebSearch.kinds], (
        "where BFCL's own scorer looks"
    )
    again = evaluate("run", tmp_path / "r", "--recorded", tmp_path / "e" / "bfcl_search", *PART[:4])
    assert again["scores"] == played["scores"], "what was recorded needs no key"
    assert len(chosen(WebSearch(), Settings({}, part="all", types=("web_search_base",)))) == 100

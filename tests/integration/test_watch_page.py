"""The page of `flushlab watch` in a real browser, fed by its own web server with samples of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Chromium
from tests.watch_feed import Feed, gone, sample

NOW = 1_761_234_600.0
PLOTS = 12

pytestmark = [
    pytest.mark.skipif(Chromium.found() is None, reason="no chromium (Debian: apt-get install chromium)"),
    pytest.mark.xdist_group("chromium"),
]


NOTES_STATES = """
document.addEventListener("DOMContentLoaded", () => {
  const state = document.getElementById("state");
  window.said = [state.textContent];
  new MutationObserver(() => said.push(state.textContent)).observe(state, { childList: true, subtree: true });
});
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        browser.at_each_page(NOTES_STATES)
        yield browser


@pytest.fixture
def feed() -> Iterator[Feed]:
    """A feed with the last 400 seconds."""
    with Feed([sample(NOW - 400 + second) for second in range(400)]) as feed:
        yield feed


def text(browser: Chromium, selector: str) -> str:
    return str(browser.run(f"document.querySelector({json.dumps(selector)}).textContent"))


def until_text(browser: Chromium, selector: str, part: str) -> None:
    browser.until(f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(part)})")


def until_state(browser: Chromium, part: str) -> None:
    """The page has said so since it was last waited for; 5 s without a sample, and it says something else."""
    said = f"said.findIndex((one) => one.includes({json.dumps(part)}))"
    browser.until(f"((at) => at >= 0 && said.splice(0, at + 1).length)({said})")


def open_page(browser: Chromium, feed: Feed, **how: Any) -> None:
    browser.open(feed.url, **how)
    until_state(browser, "live")
    browser.until("document.querySelector('#grid canvas') !== null")


def focus(browser: Chromium, plot: str) -> None:
    browser.run(f"document.querySelector('[aria-labelledby=plot-{plot}][role=slider]').focus()")


def spoken(browser: Chromium) -> str:
    return str(browser.run("document.activeElement.getAttribute('aria-valuetext')"))


def at_clock(browser: Chromium, t: float) -> str:
    return str(browser.run(f"new Date({t} * 1000).toTimeString().slice(0, 8)"))


def test_a_campaign_from_start_to_end_by_keyboard(browser: Chromium, feed: Feed) -> None:
    idle: dict[str, Any] = {
        "running": None,
        "throughput": None,
        "unit": "",
        "p50_ms": None,
        "p99_ms": None,
        "ratios": [],
    }
    for second, one in enumerate(feed.samples):
        feed.samples[second] = one | idle
    feed.stop()
    feed.start()
    open_page(browser, feed, height=2600)
    assert text(browser, "#headline") == "Nothing of flushlab runs"
    begun = sample(NOW, ratios=[])
    begun["running"] |= {"arm": "base", "stage": "screen", "round": 1}
    feed.push(begun | {"throughput": 1234.0})
    until_text(browser, "#headline", "base · screen")
    assert "1,234 transactions/s" in text(browser, "#now")
    assert browser.run("document.getElementById('ratios').hidden")
    looked = sample(NOW + 1)
    looked["running"] |= {"arm": "flush=2", "stage": "confirm", "left_s": 80.0}
    feed.push(looked)
    until_text(browser, "#ratios", "interim")
    assert "1.40 – 1.50" in text(browser, "#ratios")
    assert "1 min 20 s" in text(browser, "#now")
    assert "Throughput of each arm" in text(browser, "#ratios-about")
    feed.push(looked | {"ratios": [one | {"objective": "p99"} for one in looked["ratios"]]})
    until_text(browser, "#ratios-about", "p99 latency of each arm")
    feed.push(sample(NOW + 2, running=None))
    until_text(browser, "#headline", "Nothing of flushlab runs")

    for _ in range(30):  # to the first plot, as a keyboard goes
        browser.key("Tab")
        if browser.run("document.activeElement.getAttribute('role')") == "slider":
            break
    browser.key("ArrowLeft", times=2)
    assert spoken(browser) == f"{at_clock(browser, NOW)}: rate 1,234/s"
    browser.key(" ")
    read = text(browser, "#reading")
    assert read.startswith(f"{at_clock(browser, NOW)}, base. Throughput: rate 1,234/s. Latency: p50 ")
    assert read.count(": ") == PLOTS
    until_text(browser, ".card .time", f"{at_clock(browser, NOW)} base")
    browser.key("ArrowLeft", shift=True)
    assert spoken(browser).startswith(at_clock(browser, NOW - 30))
    browser.key("Home")
    assert spoken(browser).startswith(at_clock(browser, NOW - 400))
    browser.key("End")
    assert spoken(browser).startswith(at_clock(browser, NOW + 2))
    browser.key("Escape")
    browser.until("document.querySelector('.card .time').textContent === ''")
    browser.key("Tab")
    browser.key("Enter")
    until_text(browser, ".card details table", "Means of 15 s")
    assert browser.run("document.querySelectorAll('.card details tbody tr').length") >= 27
    assert browser.complaints == []
    assert {one.split("?")[0].rsplit("/", 1)[0] for one in browser.requested} <= {
        feed.url.rstrip("/") + part for part in ("", "/static", "/static/uplot", "/api")
    }


DIAGNOSIS: dict[str, Any] = {
    "answer": "Writes are bound: commits wait for the sync of redo log. Without it, at most 14×.",
    "seconds": 30.0,
    "samples": 118,
    "writers": 16,
    "waits": {"commit": 14.1, "client": 1.5, "semi-sync": 0.25, "flow control": 0.5},
    "findings": [
        {
            "name": "commit_sync",
            "title": "commits wait for the sync of redo log",
            "strength": "binds",
            "low": 0.853,
            "mid": 0.888,
            "high": 0.926,
            "at_most": 13.6,
            "seen": ["700 syncs/s"],
        },
        {
            "name": "binlog_cache",
            "title": "large transactions",
            "strength": "hint",
            "low": None,
            "mid": None,
            "high": None,
            "at_most": None,
            "seen": [],
        },
    ],
}


def test_what_bounds_the_writes_of_a_server_that_is_not_measured(browser: Chromium, feed: Feed) -> None:
    open_page(browser, feed)
    assert browser.run("document.getElementById('findings').hidden")
    assert browser.run("document.querySelector('[aria-labelledby=plot-writers]').hidden")
    feed.push(sample(NOW, running=None, ratios=[], diagnosis=DIAGNOSIS))
    until_text(browser, "#headline", "Writes are bound: commits wait for the sync of redo log")
    assert "Without it, at most 14×. From 118 samples of 16 writers in the last 30 s" in text(
        browser, "#findings-about"
    )
    first, second = (text(browser, f"#findings tbody tr:nth-child({row})") for row in (1, 2))
    assert first == "commits wait for the sync of redo logbinds; 700 syncs/s89 %85 % – 93 %at most 14×"
    assert second == "large transactionsa hintnot measured–"
    browser.until("!document.querySelector('[aria-labelledby=plot-writers]').hidden")
    focus(browser, "writers")
    browser.key("End")
    assert "commit 14.1, row locks 0, metadata lock 0, replicas 0.75, executing 0" in spoken(browser)
    feed.push(sample(NOW + 1, running=None, ratios=[], diagnosis=None))
    browser.until("document.getElementById('findings').hidden")
    assert browser.complaints == []


def test_a_server_without_a_load_of_flushlab_has_no_plot_of_its_latency(browser: Chromium) -> None:
    own: dict[str, Any] = {"running": None, "ratios": [], "p50_ms": None, "p99_ms": None}
    with Feed([sample(NOW - 60 + second, **own) for second in range(60)]) as feed:
        open_page(browser, feed)
        assert browser.run("document.querySelector('[aria-labelledby=plot-latency]').hidden")
        feed.push(sample(NOW))
        browser.until("!document.querySelector('[aria-labelledby=plot-latency]').hidden")
    assert browser.complaints == []


def test_a_lost_connection_leaves_no_gap(browser: Chromium, feed: Feed) -> None:
    open_page(browser, feed)
    feed.stop()
    until_state(browser, f"no contact with flushlab since {at_clock(browser, NOW - 1)}")
    for second in range(20):
        feed.samples.append(sample(NOW + second, throughput=5000.0 + second))
    feed.start()
    until_state(browser, "live")
    until_text(browser, "#now", "5,019 transactions/s")
    focus(browser, "throughput")
    browser.key("End")
    assert browser.run("document.activeElement.getAttribute('aria-valuemax')") == str(len(feed.samples) - 1)
    for second in (19, 18, 17):
        assert spoken(browser) == f"{at_clock(browser, NOW + second)}: rate {5000 + second:,}/s"
        browser.key("ArrowLeft")


def test_a_server_that_is_gone_is_said_with_its_time_and_comes_back(browser: Chromium, feed: Feed) -> None:
    open_page(browser, feed)
    feed.push(gone(NOW, NOW - 3))
    since = at_clock(browser, NOW - 3)
    until_text(browser, "#headline", f"mariadb@10.11.19 is gone since {since}")
    until_state(browser, f"server gone since {since}")
    assert "Connection refused. The page goes on when it is back." in text(browser, "#caveat")
    back = sample(NOW + 1)
    back["server"] |= {"missing": ["PROCESS"], "slow_s": 1.25}
    feed.push(back)
    until_state(browser, "live")
    assert "lacks PROCESS" in text(browser, "#caveat")
    assert "takes 1.25 s to answer" in text(browser, "#caveat")
    assert browser.complaints == []


def test_a_second_in_which_nothing_was_seen_says_why(browser: Chromium, feed: Feed) -> None:
    open_page(browser, feed)
    feed.push(gone(NOW, NOW) | {"failed": "internal error: KeyError: 'x'"})
    until_text(browser, "#headline", "Nothing is seen")
    until_state(browser, f"nothing is seen at {at_clock(browser, NOW)}")
    assert "KeyError: 'x'. This is a bug in flushlab" in text(browser, "#caveat")
    feed.push(sample(NOW + 1))
    until_state(browser, "live")
    assert browser.complaints == []


def test_names_of_users_and_arms_are_text_and_what_nobody_knows_is_left_out(
    browser: Chromium, feed: Feed
) -> None:
    hostile = '<img src=x onerror="document.title=1"><script>alert(1)</script>'
    open_page(browser, feed)
    told = sample(NOW, wait_timeout=600, max_connections=100)
    told["running"] |= {"arm": hostile, "campaign": hostile, "workload": hostile}
    told["ratios"] = [{"arm": hostile, "low": 0.9, "mid": 1.0, "high": 1.1, "early": True}]
    told["marks"] = [{"t": NOW, "kind": "stage", "text": hostile}]
    told["connections"] = [
        {"user": hostile, "command": "Sleep", "count": 120, "oldest_s": 9, "in_transaction": None}
    ]
    feed.push(told)
    until_text(browser, "#connections tbody", hostile)
    for place in ("#headline", "#now", "#ratios tbody", "#arms"):
        until_text(browser, place, hostile)
    assert browser.run("document.querySelectorAll('img, main script, header script').length") == 0
    assert "not visible" in text(browser, "#connections tbody")
    about = text(browser, "#sleepers")
    assert (
        "120 connections are asleep: each costs some memory and one of the 100 allowed connections" in about
    )
    assert "wait_timeout (10 min) closes those that sleep longer. Each connection copied its value" in about
    feed.push({"t": NOW + 1, "server": {"up": True}})
    until_text(browser, "#headline", "Nothing of flushlab runs")
    focus(browser, "redo")
    browser.key("End")
    assert spoken(browser).endswith(": age –, capacity –")
    assert browser.complaints == []


def test_a_fill_says_how_far_it_is_and_a_clock_may_be_set_back(browser: Chromium, feed: Feed) -> None:
    fill = {
        "table": "orders",
        "rows": 250_000,
        "total": 1_000_000,
        "rows_per_s": 31_000.0,
        "bytes": 3 << 20,
        "left_s": 24.0,
        "bound_by": "the disk",
    }
    open_page(browser, feed)
    feed.push(sample(NOW - 200, fill=fill, running={"kind": "fill"}, ratios=[]))
    until_text(browser, "#headline", "Filling: 25 %")
    assert "250,000 of 1,000,000" in text(browser, "#fill-keys")
    assert text(browser, "#fill-bound") == "Bound by the disk."
    assert browser.run("document.getElementById('fill-bar').position") == 0.25
    focus(browser, "rows")
    browser.key("End")
    assert spoken(browser).startswith(at_clock(browser, NOW - 200))
    browser.key("ArrowLeft")
    assert spoken(browser).startswith(at_clock(browser, NOW - 201))
    assert browser.complaints == []


@pytest.mark.parametrize("width", [400, 2000])
def test_nothing_is_wider_than_the_window(browser: Chromium, feed: Feed, width: int) -> None:
    open_page(browser, feed, width=width, height=5200, dark=width == 400)
    browser.until(f"document.querySelectorAll('#grid canvas').length === {PLOTS}")
    assert browser.run("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.card')].filter(c => c.scrollWidth > c.clientWidth + 1).length"
    assert browser.run(wide) == 0


def test_paused_the_page_stands_still_and_keeps_what_comes(browser: Chromium, feed: Feed) -> None:
    open_page(browser, feed)
    browser.run("document.getElementById('pause').click()")
    feed.push(sample(NOW, throughput=4321.0))
    until_state(browser, "paused at")
    feed.push(gone(NOW + 1, NOW + 1))
    until_state(browser, "server gone")  # so both came
    assert "is gone" not in text(browser, "#headline")
    browser.run("document.getElementById('pause').click()")
    until_text(browser, "#headline", "is gone")
    focus(browser, "throughput")
    browser.key("ArrowLeft")
    assert spoken(browser) == f"{at_clock(browser, NOW)}: rate 4,321/s"


def test_the_page_works_with_its_own_files_alone() -> None:
    page = Path(__file__).parents[2] / "python" / "flushlab" / "watch" / "page"
    for file in page.glob("*.*"):
        words = file.read_text().replace("http://www.w3.org/", "")
        assert "http://" not in words and "https://" not in words, file
        assert "innerHTML" not in words and "style=" not in words, file

"""From TOML to a plan: what a plan may hold, every mistake with its place; the arms that --only means."""

from __future__ import annotations

import re

import pytest

from flushlab.errors import UsageError
from flushlab.plan.parse import parse_plan
from flushlab.plan.plan import ArmPlan, Claim, Plan, Requirement, chosen
from flushlab.record import Value
from flushlab.settings.catalog import load_catalog
from flushlab.spec.parts import WorkloadSpec

HEAD = """\
title = "T"
[workload]
name = "upsert"
"""
BASE = f"""{HEAD}\
[base]
settings = {{ sync_binlog = 1, innodb_log_buffer_size = "16M" }}
"""
ARM = """\
[[arm]]
name = "a"
settings = { innodb_doublewrite = false }
"""
REAL_NEIGHBOURS = [
    "innodb_buffer_pool_size_max",
    "innodb_doublewrite_dir",
    "innodb_adaptive_hash_index_parts",
    "innodb_max_purge_lag_wait",
    "binlog_stmt_cache_size",
    "slave_parallel_type",
]
"""Variables of real servers that the catalog does not have, each nearest to one that it has."""
AFTER_BASE = BASE.count("\n") + 1


def parsed(text: str) -> Plan:
    return parse_plan(text, path="dir/why.toml")


def problem(text: str) -> tuple[str, str, str]:
    """Place, message and hint."""
    with pytest.raises(UsageError) as caught:
        parsed(text)
    match = re.fullmatch(r"dir/why\.toml:(\d+:\d+): (.*)", caught.value.message, re.DOTALL)
    assert match, caught.value.message
    assert caught.value.hint, "every mistake has a way out"
    return match[1], match[2], caught.value.hint


def arm(*lines: str, before: str = "") -> str:
    """A plan whose last arm has these lines, from line AFTER_BASE + 2 on."""
    return "\n".join([BASE + before + "[[arm]]", 'name = "x"', *lines, ""])


def claim(*lines: str) -> str:
    return "\n".join([BASE + ARM + "[[claim]]", *lines, ""])


def test_the_shortest_plan_has_the_defaults() -> None:
    assert parsed(HEAD + ARM) == Plan(
        name="why",
        title="T",
        workload=WorkloadSpec(name="upsert"),
        base={},
        arms=(ArmPlan(name="a", settings={"innodb_doublewrite": "OFF"}, place="arm.0"),),
        positions=parsed(HEAD + ARM).positions,
        path=parsed(HEAD + ARM).path,
    )


def test_a_plan_with_everything() -> None:
    plan = parsed(
        """\
title = "T"
text = "Why."
server = "mysql@5.7"
blocks = 3
window = 2.5
seed = 7
best = false

[workload]
name = "sql:x.sql"
transport = "tcp"
threads = 4

[base]
name = "ours"
text = "What we have."
settings = { sync-binlog = 0, innodb_log_file_size = "48M" }

[[arm]]
name = "one"
text = "First."
settings = { innodb_redo_log_capacity = "1G" }
instead = [{ innodb_log_file_size = "512M", innodb_log_files_in_group = 2 }, { innodb_log_file_size = "1G" }]

[[arm]]
name = "two"
on = "one"
defaults = ["sync_binlog", "innodb_log_files_in_group"]
workload = { threads = 8 }

[[arm]]
name = "three"
on = "ours"
data_root = "${DISK}/x"
file_system = "zfs"
record_size = "16K"
disk = "gp3"

[[claim]]
text = "Faster."
arm = "two"
against = "one"
expected = 2

[[claim]]
text = "Not slower."
arm = "one"
against = "ours"
at_least = 0.95
source = "a book"

[[requires]]
setting = "log_bin"
values = [true]
why = "replicas"

[[requires]]
setting = "sync_binlog"
not_values = [1, 0]
"""
    )
    assert (plan.name, plan.title, plan.text, plan.server) == ("why", "T", "Why.", "mysql@5.7")
    assert (plan.blocks, plan.window, plan.seed, plan.best, plan.alternate) == (3, 2.5, 7, False, False)
    assert plan.workload == WorkloadSpec(name="sql:x.sql", options={"transport": "tcp", "threads": 4})
    assert (plan.base_name, plan.base_text) == ("ours", "What we have.")
    assert plan.base == {"sync_binlog": 0, "innodb_log_file_size": "48M"}
    assert plan.arms == (
        ArmPlan(
            name="one",
            text="First.",
            settings={"innodb_redo_log_capacity": "1G"},
            instead=(
                {"innodb_log_file_size": "512M", "innodb_log_files_in_group": 2},
                {"innodb_log_file_size": "1G"},
            ),
            place="arm.0",
        ),
        ArmPlan(
            name="two",
            on="one",
            defaults=("sync_binlog", "innodb_log_files_in_group"),
            workload=WorkloadSpec(name="", options={"threads": 8}),
            place="arm.1",
        ),
        ArmPlan(
            name="three",
            data_root="${DISK}/x",
            file_system="zfs",
            record_size=16384,
            disk="gp3",
            place="arm.2",
        ),
    )
    assert plan.claims == (
        Claim(text="Faster.", arm="two", against="one", expected=2.0),
        Claim(text="Not slower.", arm="one", at_least=0.95, source="a book"),
    )
    assert plan.requires == (
        Requirement(setting="log_bin", values=("ON",), why="replicas"),
        Requirement(setting="sync_binlog", not_values=(1, 0)),
    )


def test_positions_are_found_by_the_names_of_variables_and_options() -> None:
    plan = parsed(arm('settings = { Innodb-Doublewrite = "OFF" }', "workload = { threads = 2 }"))
    assert plan.positions["arm.0.settings.innodb_doublewrite"] == (AFTER_BASE + 2, 14)
    assert plan.positions["arm.0.workload.threads"] == (AFTER_BASE + 3, 14)
    assert plan.positions["base.settings.sync_binlog"] == (5, 14)


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("skip-log-bin = true", {"log_bin": "OFF"}),
        ("skip_log_bin = false", {"log_bin": "ON"}),
        ("loose_sync_binlog = 0", {"sync_binlog": 0}),
        ("skip_name_resolve = true", {"skip_name_resolve": "ON"}),
    ],
)
def test_prefixes_mean_in_plans_what_they_mean_to_servers(line: str, settings: dict[str, Value]) -> None:
    assert parsed(arm(f"settings = {{ {line} }}")).arms[0].settings == settings


def test_a_setting_that_only_the_server_knows_is_left_to_it() -> None:
    plan = parsed(arm("settings = { binlog_parallel_flush = true, innodb_monitor_gaze = 1 }"))
    assert plan.arms[0].settings == {"binlog_parallel_flush": "ON", "innodb_monitor_gaze": 1}


@pytest.mark.parametrize("name", REAL_NEIGHBOURS)
def test_real_variables_near_known_ones_are_no_slips(name: str) -> None:
    assert name not in load_catalog(), "then it proves nothing: take another one"
    assert parsed(arm(f"settings = {{ {name} = 1 }}")).arms[0].settings == {name: 1}


def test_an_arm_may_go_back_to_all_defaults() -> None:
    assert parsed(arm('defaults = ["*"]')).arms[0].defaults == ("*",)


def test_a_claim_may_be_about_best() -> None:
    assert parsed(claim('text = "t"', 'arm = "best"', "at_least = 1")).claims[0].arm == "best"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("[workload]\nname = 'upsert'\n" + ARM, "1:1", "a plan needs title", "title = …"),
        ('title = "T"\n' + ARM, "1:1", "a plan needs workload", "workload"),
        (HEAD, "1:1", "a plan needs arm", "arm"),
        ("blokcs = 5\n" + HEAD + ARM, "1:1", "blokcs is not a key of a plan", "did you mean blocks?"),
        ("xyzzy = 5\n" + HEAD + ARM, "1:1", "xyzzy is not a key of a plan", "it takes title, text"),
        (HEAD + "[[amr]]\nname = 'a'\n", "4:3", "amr is not a key of a plan", "did you mean arm?"),
        ("blocks = 1\n" + HEAD + ARM, "1:10", "blocks is 1, which is out of range", "2 to 1000"),
        ("blocks = 1001\n" + HEAD + ARM, "1:10", "blocks is 1001", "2 to 1000"),
        ('blocks = "5"\n' + HEAD + ARM, "1:10", "blocks is a string; it takes a whole number", "whole"),
        ("blocks = 5.0\n" + HEAD + ARM, "1:10", "blocks is a float", "a whole number"),
        ("window = 0\n" + HEAD + ARM, "1:10", "window is 0, which is out of range", "more than 0"),
        ("window = inf\n" + HEAD + ARM, "1:10", "window is inf", "a number"),
        ("window = 1e9\n" + HEAD + ARM, "1:10", "window is 1e+09", "up to 86400"),
        ("seed = -1\n" + HEAD + ARM, "1:8", "seed is -1", "it takes 0 to"),
        ("best = 1\n" + HEAD + ARM, "1:8", "best is an integer; it takes true or false", "true"),
        ('title = " "\n[workload]\nname = "u"\n' + ARM, "1:9", "title is not one line", "question"),
        ('title = "T"\nworkload = "upsert"\n' + ARM, "2:12", "workload is a string", "[workload]"),
        ('title = "T"\n[workload]\nnaem = "u"\n' + ARM, "3:1", "has naem but no name", "name?"),
        ('title = "T"\n[workload]\nthreads = 1\n' + ARM, "2:1", "the workload needs name", "name"),
        ('title = "T"\n[workload]\nname = ""\n' + ARM, "3:8", "name is empty", "upsert"),
        (HEAD + "threads = [1]\n" + ARM, "4:11", "threads is an array; it takes a number", "string"),
        (
            HEAD + "threads = 1999-12-31\n" + ARM,
            "4:11",
            "threads is a datetime",
            "a number, a string, true or",
        ),
        ("arm = 5\n" + HEAD, "1:7", "arm is an integer; it takes a list of tables", "[[arm]]"),
        ("arm = []\n" + HEAD, "1:7", "the plan has no arm", "[[arm]]"),
        (BASE + "nmae = 'x'\n" + ARM, "6:1", "nmae is not a key of the base", "did you mean name?"),
        (BASE + "name = 'Control'\n" + ARM, "6:8", "the name Control is reserved", "best"),
        (BASE + "name = 'a'\n" + ARM, "8:8", "the name a is taken", "its own name"),
        (HEAD + "[base]\nsettings = 1\n" + ARM, "5:12", "settings is an integer", "sync_binlog"),
    ],
)
def test_mistakes_of_the_plan_are_named_with_place_and_hint(
    text: str, place: str, message: str, hint: str
) -> None:
    found = problem(text)
    assert found[0] == place
    assert message in found[1]
    assert hint in found[2]


def test_a_command_that_needs_fresh_data_cannot_alternate() -> None:
    text = "alternate = true\n" + arm("settings = { sync_binlog = 0 }")
    text = re.sub(r'name = "upsert"', 'name = "command: ./load.sh"', text, count=1)
    place, message, hint = problem(text)
    assert (place, message) == (
        "1:1",
        "a command starts from fresh data each time, but alternate = true keeps one server's",
    )
    assert 'reset = "none"' in hint
    same = text.replace('load.sh"', 'load.sh"\nreset = "none"')
    assert parsed(same).workload.options == {"reset": "none"}


@pytest.mark.parametrize(
    ("lines", "place", "message", "hint"),
    [
        (["setings = { a = 1 }"], "2:1", "setings is not a key of the arm x", "did you mean settings?"),
        (["settings = { innodb_doublewite = 0 }"], "2:14", "innodb_doublewite", "innodb_doublewrite?"),
        (["settings = { inodb-io-capacity = 0 }"], "2:14", "inodb-io-capacity", "innodb_io_capacity?"),
        (["settings = { 'a b' = 0 }"], "2:14", "'a b' is not the name of a setting", "sync_binlog"),
        (["settings = { sync_binlog = 0, sync-binlog = 1 }"], "2:31", "sync_binlog is set twice", "_"),
        (["settings = { sync_binlog = [1] }"], "2:28", "sync_binlog is an array", "a number"),
        (["settings = { sync_binlog = nan }"], "2:28", "sync_binlog is NaN", "a number"),
        (["settings = { sync_binlog = 2020-01-01 }"], "2:28", "sync_binlog is a datetime", "a number"),
        (["settings = ['a']"], "2:12", "settings is an array; it takes a table of settings", "{"),
        ([], "0:1", "the arm x changes nothing", "settings, defaults"),
        (["settings = {}"], "0:1", "the arm x changes nothing", "settings, defaults"),
        (["on = 'b'", "disk = 'gp3'"], "2:6", "on refers to 'b', but there is no such arm", "base"),
        (["on = 'x'", "disk = 'gp3'"], "2:6", "on refers to x, which does not come before", "move x up"),
        (["on = 'bas'", "disk = 'gp3'"], "2:6", "on refers to 'bas'", "did you mean base?"),
        (["defaults = 'sync_binlog'"], "2:12", "defaults is a string; it takes a list", "["),
        (["defaults = [1]"], "2:13", "an item of defaults is an integer", "["),
        (["defaults = ['sync_binlg']"], "2:13", "sync_binlg", "did you mean sync_binlog?"),
        (["defaults = ['log_bin']"], "2:13", "base does not set it", "sync_binlog"),
        (["defaults = ['sync_binlog']", "settings = { sync_binlog = 1 }"], "2:13", "in settings too", "set"),
        (["instead = [{ sync_binlog = 1 }]"], "2:11", "the arm has none", "settings"),
        (["settings = { log_bin = 1 }", "instead = [{}]"], "3:12", "an item of instead is empty", "[{"),
        (["settings = { log_bin = 1 }", "instead = { a = 1 }"], "3:11", "instead is a table", "[{"),
        (
            ["settings = { log_bin = 1 }", "instead = [{ sync_binlo = 1 }]"],
            "3:14",
            "sync_binlo",
            "sync_binlog?",
        ),
        (["workload = 'upsert'"], "2:12", "workload is a string; it takes a table of options", "{"),
        (["workload = { name = '' }"], "2:21", "the workload's name is empty", "upsert"),
        (["workload = { name = 3 }"], "2:21", "name is an integer", "string"),
        (["workload = { threads = {} }"], "2:24", "threads is a table", "a number"),
        (["data_root = ''"], "2:13", "data_root is '', which is not a path", "folder"),
        (["data_root = '${A'"], "2:13", "data_root is '${A'", "environment variable"),
        (["data_root = '${1A}'"], "2:13", "which is not a path", "environment variable"),
        (["data_root = 1"], "2:13", "data_root is an integer; it takes a string", "quotes"),
        (["disk = 120"], "2:8", "disk is an integer; it takes a string", "quotes"),
        (["disk = 'gp3'", "record_size = '16X'"], "3:15", "'16X' is not a size", "512M"),
        (["disk = 'gp3'", "record_size = 10000"], "3:15", "record_size is 10000", "16384"),
        (["disk = 'gp3'", "record_size = 256"], "3:15", "record_size is 256", "16384"),
        (["disk = 'gp3'", "record_size = true"], "3:15", "record_size is a boolean", "16384"),
        (["name = 'y'"], "2:1", "duplicate key", "quotes"),
    ],
)
def test_mistakes_of_an_arm_are_named_with_place_and_hint(
    lines: list[str], place: str, message: str, hint: str
) -> None:
    found = problem(arm(*lines))
    line, column = map(int, place.split(":"))
    assert found[0] == f"{AFTER_BASE + line}:{column}"
    assert message in found[1]
    assert hint in found[2]


@pytest.mark.parametrize("name", ["base", "control", "best", "Best"])
def test_reserved_names_are_refused(name: str) -> None:
    place, message, hint = problem(BASE + ARM.replace('"a"', f'"{name}"'))
    assert (place, message) == (f"{AFTER_BASE + 1}:8", f"the name {name} is reserved")
    assert "base, control, best" in hint


@pytest.mark.parametrize("name", ["", " a", "a ", "a\\nb", "a" * 41])
def test_names_that_do_not_fit_a_line_are_refused(name: str) -> None:
    place, message, _ = problem(BASE + ARM.replace('"a"', f'"{name}"'))
    assert place == f"{AFTER_BASE + 1}:8"
    assert message.endswith("is not a valid name")


def test_a_second_arm_of_the_same_name_is_refused_where_it_stands() -> None:
    place, message, _ = problem(BASE + ARM + ARM)
    assert (place, message) == (f"{AFTER_BASE + 4}:8", "the name a is taken")


def test_an_arm_without_a_name_is_told_by_its_number() -> None:
    place, message, _ = problem(BASE + ARM + "[[arm]]\ndisk = 'gp3'\n")
    assert (place, message) == (f"{AFTER_BASE + 3}:1", "arm 2 needs name")


def test_an_arm_may_not_build_on_a_later_one() -> None:
    place, message, hint = problem(
        BASE + ARM.replace("settings", 'on = "b"\nsettings') + ARM.replace('"a"', '"b"')
    )
    assert place == f"{AFTER_BASE + 2}:6"
    assert "on refers to b, which does not come before this arm" in message
    assert hint == "move b up"


def test_what_an_earlier_arm_sets_can_go_back_to_its_default_in_those_that_build_on_it() -> None:
    good = arm('on = "a"', 'defaults = ["innodb_doublewrite"]', before=ARM)
    assert parsed(good).arms[1].defaults == ("innodb_doublewrite",)
    place, message, _ = problem(good.replace('on = "a"', 'on = "base"'))
    assert place == f"{AFTER_BASE + 6}:13"
    assert "base does not set it" in message


@pytest.mark.parametrize(
    "line", ["workload = { threads = 1 }", "data_root = '/x'", "file_system = 'zfs'", "disk = 'gp3'"]
)
def test_what_needs_another_server_cannot_alternate(line: str) -> None:
    text = "alternate = true\n" + arm("settings = { sync_binlog = 0 }", line)
    place, message, _ = problem(text)
    assert place == f"{AFTER_BASE + 4}:1"
    assert "cannot change while one server runs" in message
    assert len(parsed(text.replace("true\n", "false\n", 1)).arms) == 1


@pytest.mark.parametrize(
    ("lines", "place", "message", "hint"),
    [
        (["arm = 'a'", "expected = 1"], "0:1", "claim 1 needs text", "text"),
        (["text = 't'", "expected = 1"], "0:1", "claim 1 needs arm", "arm"),
        (["text = 't'", "arm = 'aa'", "expected = 1"], "2:7", "arm refers to 'aa'", "did you mean a?"),
        (["text = 't'", "arm = 'base'", "expected = 1"], "2:7", "arm refers to 'base'", "there are a, best"),
        (
            ["text = 't'", "arm = 'a'", "against = 'best'", "expected = 1"],
            "3:11",
            "against refers to",
            "base, a",
        ),
        (["text = 't'", "arm = 'a'", "against = 'a'", "expected = 1"], "3:11", "with itself", "base"),
        (["text = 't'", "arm = 'a'"], "0:1", "claim 1 has no ratio", "exactly one of expected"),
        (["text = 't'", "arm = 'a'", "at_most = 2", "at_least = 1"], "3:1", "at_least and at_most", "one of"),
        (["text = 't'", "arm = 'a'", "expected = 2", "at_most = 1"], "4:1", "expected and at_most", "one of"),
        (
            ["text = 't'", "arm = 'a'", "expected = 0"],
            "3:12",
            "expected is 0, which is out of range",
            "twice",
        ),
        (
            ["text = 't'", "arm = 'a'", "expected = '2'"],
            "3:12",
            "expected is a string; it takes a number",
            "twice",
        ),
        (["text = 't'", "arm = 'a'", "expcted = 2"], "3:1", "expcted is not a key of claim 1", "expected?"),
    ],
)
def test_mistakes_of_a_claim_are_named_with_place_and_hint(
    lines: list[str], place: str, message: str, hint: str
) -> None:
    found = problem(claim(*lines))
    line, column = map(int, place.split(":"))
    assert found[0] == f"{AFTER_BASE + 3 + line}:{column}"
    assert message in found[1]
    assert hint in found[2]


def test_best_can_be_claimed_only_where_it_runs() -> None:
    text = claim('text = "t"', 'arm = "best"', "at_least = 1")
    place, message, _ = problem("best = false\n" + text)
    assert place == f"{AFTER_BASE + 6}:7"
    assert "arm refers to 'best'" in message


@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        (["values = [1]"], "0:1", "requirement 1 needs setting"),
        (["setting = 'sync_binlogg'"], "1:11", "no server is known to have sync_binlogg"),
        (["setting = 'log_bin'", "values = true"], "2:10", "values is a boolean; it takes a list of values"),
        (["setting = 'log_bin'", "values = [[1]]"], "2:11", "an item of values is an array"),
        (["setting = 'log_bin'", "value = [1]"], "2:1", "value is not a key of requirement 1"),
    ],
)
def test_mistakes_of_a_requirement_are_named_with_place(lines: list[str], place: str, message: str) -> None:
    found = problem("\n".join([BASE + ARM + "[[requires]]", *lines, ""]))
    line, column = map(int, place.split(":"))
    assert found[0] == f"{AFTER_BASE + 3 + line}:{column}"
    assert message in found[1]


def test_a_plan_has_a_limit_of_arms() -> None:
    arms = "".join(ARM.replace('"a"', f'"a{number}"') for number in range(101))
    place, message, _ = problem(BASE + arms)
    assert place == f"{AFTER_BASE + 300}:1"
    assert "at most 100 arms" in message
    assert len(parsed(BASE + arms[: arms.rindex("[[arm]]")]).arms) == 100


FACTORS = """\
[[factor]]
name = "binlog"
text = "With a binary log."
settings = { log_bin = true }
[[factor]]
name = "flush 2"
settings = { innodb_flush_log_at_trx_commit = 2 }
instead = [{ innodb_flush_log_at_trx_commit = 0 }]
"""


def test_factors_become_an_arm_for_every_combination() -> None:
    plan = parsed(
        BASE + FACTORS + '[[arm]]\nname = "x"\non = "binlog + flush 2"\nsettings = { sync_binlog = 0 }\n'
    )
    assert plan.factors == ("binlog", "flush 2")
    assert not plan.best, "all of them together are measured already"
    assert [(arm.name, arm.on, dict(arm.settings), arm.text) for arm in plan.arms] == [
        ("binlog", "base", {"log_bin": "ON"}, "With a binary log."),
        ("flush 2", "base", {"innodb_flush_log_at_trx_commit": 2}, ""),
        ("binlog + flush 2", "binlog", {"innodb_flush_log_at_trx_commit": 2}, ""),
        ("x", "binlog + flush 2", {"sync_binlog": 0}, ""),
    ]
    assert plan.arms[2].instead == ({"innodb_flush_log_at_trx_commit": 0},)
    assert [arm.place for arm in plan.arms] == ["factor.0", "factor.1", "factor.1", "arm.0"]


def test_a_plan_of_factors_needs_no_other_arm() -> None:
    assert len(parsed(BASE + FACTORS).arms) == 3


def test_one_factor_is_no_factorial_and_five_are_too_many() -> None:
    one = FACTORS[: FACTORS.index("[[factor]]", 5)]
    assert problem(BASE + one)[1] == "the plan has 1 factor"
    many = "".join(f'[[factor]]\nname = "{n}"\nsettings = {{ sync_binlog = {n} }}\n' for n in range(2, 7))
    assert problem(BASE + many)[1:] == (
        "the plan has 5 factors",
        "2 to 4 can be crossed; a change by itself is an [[arm]]",
    )


def test_factors_have_names_of_their_own_that_can_be_joined() -> None:
    assert problem(BASE + FACTORS.replace('"flush 2"', '"a + b"'))[1] == "the name a + b has a +"
    assert problem(BASE + FACTORS.replace('"flush 2"', '"binlog"'))[1] == "the name binlog is taken"
    assert problem(BASE + FACTORS.replace('name = "flush 2"\n', ""))[1] == "factor 2 needs name"
    assert problem(BASE + FACTORS + '[[arm]]\nname = "binlog + flush 2"\nsettings = { sync_binlog = 0 }\n')[
        1
    ] == ("the name binlog + flush 2 is taken")
    assert problem(BASE + FACTORS + 'on = "binlog"\n')[1] == "on is not a key of the factor flush 2"


def test_a_claim_may_be_about_what_was_counted() -> None:
    lines = ('text = "t"', 'arm = "a"', "at_most = 0.5", 'quantity = "redo syncs per commit"')
    assert parsed(claim(*lines)).claims[0].quantity == "redo syncs per commit"
    _, what, hint = problem(claim(*lines[:3], 'quantity = "redo sync per commit"'))
    assert what == "unknown quantity 'redo sync per commit'"
    assert hint == "did you mean redo syncs per commit?"


NAMES = ("B primary key", "H doublewrite off", "J ZFS, 16k records", "J2 ZFS, doublewrite off", "log buffer")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("H doublewrite off", "H doublewrite off"),
        ("h DOUBLEWRITE off", "H doublewrite off"),
        ("H", "H doublewrite off"),
        ("J", "J ZFS, 16k records"),
        ("J2", "J2 ZFS, doublewrite off"),
        ("log b", "log buffer"),
    ],
)
def test_a_name_or_how_only_one_name_begins_stands_for_the_arm(word: str, name: str) -> None:
    assert chosen([word], NAMES) == (name,)


def test_arms_come_in_the_order_of_the_plan_and_once() -> None:
    assert chosen(["log buffer", "H", "B", "H doublewrite off"], NAMES) == (NAMES[0], NAMES[1], NAMES[4])


def test_no_words_choose_nothing() -> None:
    assert chosen([], NAMES) == ()


def test_a_name_is_meant_itself_where_others_begin_like_it() -> None:
    assert chosen(["flush"], ("flush", "flush 2", "flush 2, no binlog")) == ("flush",)
    assert chosen(["flush 2"], ("flush", "flush 2", "flush 2, no binlog")) == ("flush 2",)


def test_the_beginning_of_several_names_is_refused() -> None:
    with pytest.raises(UsageError, match="fits several arms") as raised:
        chosen(["trx_commit"], ("trx_commit=0", "trx_commit=2"))
    assert raised.value.hint == "name one of: trx_commit=0; trx_commit=2"


@pytest.mark.parametrize("word", ["", " ", "Z"])
def test_what_no_arm_is_called_is_refused_with_the_names(word: str) -> None:
    with pytest.raises(UsageError, match="has no such arm") as raised:
        chosen([word], NAMES)
    assert raised.value.hint is not None
    assert "H doublewrite off" in raised.value.hint


def test_a_misspelled_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as raised:
        chosen(["H doublewite off"], NAMES)
    assert raised.value.hint == "did you mean 'H doublewrite off'?"

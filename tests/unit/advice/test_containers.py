from __future__ import annotations

import pytest

from flushlab.advice import containers
from flushlab.advice.containers import Form, Image, parse_image
from flushlab.errors import UsageError
from flushlab.settings.catalog import load_catalog
from flushlab.suite.profile import throwaway

IMAGES = ("mysql@5.7", "mysql@8.0", "mysql@8.4", "mysql@9.7", "mariadb@10.4", "mariadb@10.11", "mariadb@11.8")


def words(server: str, **chosen: str | int) -> list[str]:
    return [one.word for one in containers.arguments(parse_image(server), chosen)]


@pytest.mark.parametrize("server", IMAGES)
def test_every_argument_is_one_that_the_images_server_has(server: str) -> None:
    image, catalog = parse_image(server), load_catalog()
    for name in (name for name in throwaway(image, "memory") if name in catalog):
        assert catalog.here(name, image.flavor, image.version) is not None, name
    assert len(words(server)) == len(throwaway(image, "memory"))


def test_an_open_version_is_the_newest_of_its_series() -> None:
    assert parse_image("mysql@8.0").version > (8, 0, 30)
    assert "--innodb-redo-log-capacity=32M" in words("mysql@8.0")
    assert "--innodb-log-file-size=16M" in words("mysql@8.0.15")
    assert "--innodb-log-file-size=16M" in words("mysql@5.7")


def test_the_binary_log_is_skipped_and_not_called_off() -> None:
    assert "--skip-log-bin" in words("mysql@8.0")
    assert not [word for word in words("mysql@8.0") if word.startswith("--log-bin")]


def test_the_users_own_settings_win() -> None:
    assert "--innodb-doublewrite=ON" in words("mysql@5.7", innodb_doublewrite="ON")
    assert "--sql-mode=ANSI" in words("mysql@5.7", sql_mode="ANSI")


@pytest.mark.parametrize("server", ["mysql-8.0.15-a893e37643da", "/opt/mysql.tar.gz"])
def test_an_image_takes_a_version(server: str) -> None:
    with pytest.raises(UsageError, match="there is no known image for it") as caught:
        parse_image(server)
    assert caught.value.hint and "mysql@8.0" in caught.value.hint


def test_a_flavor_alone_is_the_image_of_its_series() -> None:
    assert (parse_image("mysql").tag, parse_image("mariadb").tag) == ("8.0", "10.11")


def test_servers_below_the_profile_are_refused() -> None:
    with pytest.raises(UsageError, match=r"the profile is for mysql 5\.7 and newer"):
        parse_image("mysql@5.6")
    assert parse_image("mariadb@10.4") == Image(flavor="mariadb", version=(10, 4, 999), tag="10.4")


@pytest.mark.parametrize("form", containers.TEMPLATES)
def test_what_a_text_must_escape_is_escaped(form: Form) -> None:
    text = containers.render(
        form, parse_image("mysql@8.0"), database="a$b", chosen={"init_connect": "SET @a = 'x y'"}
    )
    expected = {
        "compose": ("\"--init-connect=SET @a = 'x y'\"", '"a$$b"'),
        "testcontainers": ("\"--init-connect=SET @a = 'x y'\"", '"a$b"'),
        "github-action": ("""'--init-connect=SET @a = '"'"'x y'"'"''""", "MYSQL_DATABASE='a$b'"),
    }[form]
    for piece in expected:
        assert piece in text


def test_the_suites_command_is_the_actions_last_step() -> None:
    text = containers.render(
        "github-action", parse_image("mysql@8.0"), database="app", command=["mvn", "-Dx=a b", "verify"]
    )
    assert text.endswith("          mvn '-Dx=a b' verify\n")

"""Passwords are found by what stands beside them; what is none stays as it is."""

from __future__ import annotations

import pytest

from flushlab.redact import option_file_without_passwords, values_without_passwords, without_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mysql -uroot -pgeheim shop < x.sql", "mysql -uroot -p*** shop < x.sql"),
        ("mariadb-dump -u root -p'a b' shop", "mariadb-dump -u root -p*** shop"),
        ("./load.sh --password=geheim --n 3", "./load.sh --password=*** --n 3"),
        ("./load.sh --password geheim", "./load.sh --password ***"),
        ("sysbench --mysql-password='a b' run", "sysbench --mysql-password=*** run"),
        ("MYSQL_PWD=geheim ./load.sh", "MYSQL_PWD=*** ./load.sh"),
        ('DB_PASSWORD="a b" ./load.sh', "DB_PASSWORD=*** ./load.sh"),
        ("./x mysql://u:p%40ss@db:3306/shop", "./x mysql://u:***@db:3306/shop"),
        ("CREATE USER a IDENTIFIED BY 'geheim'", "CREATE USER a IDENTIFIED BY ***"),
        (
            "ALTER USER a IDENTIFIED WITH mysql_native_password AS '*94BD'",
            "ALTER USER a IDENTIFIED WITH mysql_native_password AS ***",
        ),
        ("SET PASSWORD FOR a = 'geheim'", "SET PASSWORD FOR a = ***"),
        ("SET PASSWORD = PASSWORD('geheim')", "SET PASSWORD = PASSWORD(***)"),
        ("[client]\nuser = a\npassword = geheim\n", "[client]\nuser = a\npassword = ***\n"),
        ("connect(host='h', password='geheim')", "connect(host='h', password=***)"),
        ('{"password": "geheim", "n": 1}', '{"password": ***, "n": 1}'),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: A\n\nMIIE\n-----END RSA PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\n",
        ),
    ],
)
def test_a_password_is_hidden(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
    assert without_passwords(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "mkdir -p build && cp -p a b",
        "mysql -P 3306 -p shop",
        "./load.sh --password=$PASSWORD",
        "UPDATE user SET password = :hash WHERE id = :id",
        "UPDATE user SET password_changed = NOW() WHERE id = ?",
        'parameter.token = { type = "uuid" }',
        "SELECT token FROM session WHERE id = :id",
        "http://example.org:8080/x",
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert without_passwords(text) == text


def test_a_password_in_an_option_file_is_hidden_to_the_end_of_its_line() -> None:
    text = (
        "[client]\nPassword = a;b 'c\n# password=old one\n[mysqld]\nloose-wsrep_sst_auth=sst:a,b)\n"
        "port = 3306\nsecure_auth = ON\ninit_connect = \"SET PASSWORD = 'x'\"\n"
    )
    assert option_file_without_passwords(text) == (
        "[client]\nPassword = ***\n# password=***\n[mysqld]\nloose-wsrep_sst_auth=***\n"
        'port = 3306\nsecure_auth = ON\ninit_connect = "SET PASSWORD = ***"\n'
    )


def test_every_text_of_a_value_is_looked_at() -> None:
    value = {"workload": "command: mysql -pgeheim", "arms": [{"n": 1, "text": "PWD=geheim x"}]}
    shown = {"workload": "command: mysql -p***", "arms": [{"n": 1, "text": "PWD=*** x"}]}
    assert values_without_passwords(value) == shown

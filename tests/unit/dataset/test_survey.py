"""Which server a dump is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.dataset import open_dataset
from flushlab.dataset.dump import SqlData
from flushlab.dataset.survey import header

pytestmark = pytest.mark.usefixtures("private_home")

PHPMYADMIN = """-- phpMyAdmin SQL Dump
-- version 5.2.0
-- https://www.phpmyadmin.net/
--
-- {host}127.0.0.1:3306
-- {time}
-- {server}{version}
-- {php}8.2.0

SET SQL_MODE = "NO_AUTO_VALUE_ON_ZERO";

--
-- {database}`a``b`
--
"""
HEIDISQL = """-- --------------------------------------------------------
-- {host}                         127.0.0.1
-- {server}           {version} - MySQL Community Server - GPL
-- {system}                Win64
-- {heidi}             12.8.0.6908
-- --------------------------------------------------------
"""
NAVICAT = """/*
 Navicat Premium Data Transfer

 Source Server         : local
 Source Server Type    : MySQL
 Source Server Version : {version}
 Source Host           : localhost:3306
 Source Schema         : shop
"""


@pytest.mark.parametrize(
    "lines",
    [
        "Host: |Generation Time: Mar 03, 2025 at 07:20 PM|Server version: |PHP Version: |Database: ",
        "Hôte : |Généré le : ven. 14 juin 2024|Version du serveur : |Version de PHP : |Base de données : ",
        "Client :  |Généré le :  Dim 10 Mars|Version du serveur :  |Version de PHP :  |Base de données :  ",
        "Hôte\u00a0: |Le\u00a0: 01.01.2024|Version du serveur\u00a0: |Version de PHP\u00a0: |Base\u00a0: ",
        "主机： |生成日期： 2024-01-01 12:00:00|服务器版本： |PHP 版本： |数据库： ",
    ],
)
def test_phpmyadmins_header_is_read_in_any_language(lines: str) -> None:
    host, time, server, php, database = lines.split("|")

    def text(version: str) -> str:
        words = {"host": host, "time": time, "server": server, "php": php, "database": database}
        return PHPMYADMIN.format(version=version, **words)

    assert header(text("10.4.24-MariaDB")) == ("a`b", "MariaDB 10.4.24")
    assert header(text("8.0.33-0ubuntu0.22.04.2")) == ("a`b", "MySQL 8.0.33")


@pytest.mark.parametrize(
    ("host", "server", "system", "heidi"),
    [
        ("Host:", "Server version:", "Server OS:", "HeidiSQL Version:"),
        ("Hôte:", "Version du serveur:", "SE du serveur:", "HeidiSQL Version:"),
        ("Host:", "Versione server:", "S.O. server:", "HeidiSQL Versione:"),
    ],
)
def test_heidisqls_header_is_read_in_any_language(host: str, server: str, system: str, heidi: str) -> None:
    words = {"host": host, "server": server, "system": system, "heidi": heidi}
    assert header(HEIDISQL.format(version="8.0.30", **words)) == ("", "MySQL 8.0.30")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-- Adminer 4.8.1 MySQL 5.5.5-10.11.6-MariaDB dump\n", ("", "MariaDB 10.11.6")),
        ("-- Adminer 5.0.4 MySQL 8.0.33 dump\n", ("", "MySQL 8.0.33")),
        (NAVICAT.format(version="80022"), ("shop", "MySQL 8.0.22")),
        (NAVICAT.format(version="100424"), ("shop", "MariaDB 10.4.24")),
        (NAVICAT.format(version="80407 (8.4.7)"), ("shop", "MySQL 8.4.7")),
        ("MySQL - 10.4.11-MariaDB : Database - shop\n*****\n", ("shop", "MariaDB 10.4.11")),
        ("-- TablePlus 5.3.8(500)\n-- Database: shop\n", ("shop", "")),
        ("-- MariaDB dump 10.19-11.8.3-MariaDB, for debian-linux-gnu (x86_64)\n", ("", "MariaDB 11.8.3")),
        ("-- Note: `shop` is old\n-- Version: 8.0.1\nCREATE TABLE t (a INT);\n", ("", "")),
    ],
)
def test_other_clients_say_it_their_own_way(text: str, found: tuple[str, str]) -> None:
    assert header(text) == found


@pytest.mark.parametrize(
    ("position", "origin"),
    [
        ("Executed_Gtid_Set = 55512139-1432-11f1-8d8d-0693b428a89b:1-11490596", "MySQL"),
        ('# executed_gtid_set = "55512139-1432-11f1-8d8d-0693b428a89b:1-3"', "MySQL"),
        ("\tGTID:0-1-1042", "MariaDB"),
        ("Executed_Gtid_Set =", ""),
    ],
)
def test_mydumpers_position_tells_the_flavor(tmp_path: Path, position: str, origin: str) -> None:
    (tmp_path / "metadata").write_text(f"# Started dump at: 2026-03-02 23:45:20\n[source]\n{position}\n")
    (tmp_path / "shop.item-schema.sql").write_text("CREATE TABLE `item` (`id` int NOT NULL);\n")
    data = open_dataset(tmp_path)
    assert isinstance(data, SqlData)
    assert data.survey().origin == origin


def test_words_of_a_dump_are_remembered_with_it_and_rows_are_not_among_them(tmp_path: Path) -> None:
    rows = "INSERT INTO `t` VALUES ('CREATE SEQUENCE s');\n"
    (tmp_path / "x.sql").write_text(f"CREATE TABLE `t` (`a` int) COLLATE utf8mb4_0900_ai_ci;\n{rows}")
    data = open_dataset(tmp_path / "x.sql")
    assert isinstance(data, SqlData)
    assert data.survey().words == ("utf8mb4_0900",)
    (sign,) = data.signs()
    assert sign.text == "x.sql has utf8mb4_0900 (MySQL 8.0.1 or MariaDB 11.4.5 and later)"


@pytest.mark.parametrize(
    ("name", "content", "origin"),
    [
        ("mysql.ibd", bytes.fromhex("0001388f").rjust(12, b"\0") + b"\0" * 60, "MySQL 8.0.15"),
        ("mysql.ibd", bytes.fromhex("00016250").rjust(12, b"\0") + b"\0" * 60, "MySQL 9.7.4"),
        ("mysql/db.frm", bytes(51) + bytes.fromhex("22c60000") + bytes(9), "MySQL 5.7.22"),
        ("mysql/db.frm", bytes(51) + bytes.fromhex("ff8a0100") + bytes(9), "MariaDB 10.11.19"),
        ("mysql_upgrade_info", b"10.11.19-MariaDB", "MariaDB 10.11.19"),
        ("mariadb_upgrade_info", b"11.8.9-MariaDB", "MariaDB 11.8.9"),
        ("mysql_upgrade_info", b"5.7.44\n", "MySQL 5.7.44"),
        ("xtrabackup_info", b"tool_name = xtrabackup\nserver_version = 8.0.35-27\n", "MySQL 8.0.35"),
        ("mariadb_backup_info", b"server_version = 10.11.6-MariaDB-log\n", "MariaDB 10.11.6"),
        ("ib_logfile0", b"", ""),
    ],
)
def test_a_data_directory_says_which_server_wrote_it(
    tmp_path: Path, name: str, content: bytes, origin: str
) -> None:
    (tmp_path / "mysql").mkdir()
    (tmp_path / "ibdata1").write_bytes(b"")
    (tmp_path / name).write_bytes(content)
    data = open_dataset(tmp_path)
    assert not isinstance(data, SqlData)
    assert data.origin == origin
    assert len(data.signs()) == bool(origin)

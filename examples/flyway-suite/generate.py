#!/usr/bin/env python3
"""Writes the migrations of this suite: one small change each, as a project makes them over the years.

The files in src/main/resources/db/migration are what counts; this script only says how they came about.
Without an argument it writes them, with --check it says whether they are what it would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "src/main/resources/db/migration"

TABLES = {  # in the order in which the project came to need them: table -> its parent, or ""
    "currency": "",
    "country": "",
    "customer": "country",
    "address": "customer",
    "category": "",
    "supplier": "country",
    "product": "category",
    "price": "product",
    "warehouse": "country",
    "stock": "product",
    "cart": "customer",
    "cart_item": "cart",
    "purchase": "customer",
    "purchase_item": "purchase",
    "invoice": "purchase",
    "invoice_line": "invoice",
    "payment": "invoice",
    "refund": "payment",
    "carrier": "country",
    "shipment": "purchase",
    "parcel": "shipment",
    "campaign": "",
    "coupon": "campaign",
    "review": "product",
    "wishlist": "customer",
    "wishlist_item": "wishlist",
    "department": "",
    "employee": "department",
    "role": "",
    "role_grant": "role",
    "tax_rate": "country",
    "document": "customer",
    "message": "customer",
    "message_template": "",
    "tag": "",
    "product_tag": "product",
    "supplier_order": "supplier",
    "supplier_order_item": "supplier_order",
    "loyalty_account": "customer",
    "loyalty_entry": "loyalty_account",
}
SEEDED = {
    "currency": ("EUR", "USD", "GBP", "CHF", "JPY"),
    "country": ("Austria", "Belgium", "Denmark", "France", "Italy", "Japan", "Spain", "Sweden"),
    "category": ("Books", "Games", "Garden", "Kitchen", "Music", "Office"),
    "carrier": ("Falcon", "Heron", "Swift"),
    "department": ("Accounting", "Purchasing", "Sales", "Support"),
    "role": ("admin", "clerk", "guest"),
    "tax_rate": ("standard", "reduced", "zero"),
    "message_template": ("welcome", "dispatched", "refunded", "reminder"),
    "tag": ("new", "sale", "fragile", "gift"),
    "campaign": ("spring", "summer"),
}
AGE_IN_ROUNDS = 9  # a table is created, then changed once in each of the next rounds


def create(table: str) -> tuple[str, str]:
    parent = TABLES[table]
    lines = [
        "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        "  name VARCHAR(100) NOT NULL",
        "  legacy_code VARCHAR(20) NULL",
        "  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",
    ]
    if parent:
        lines.insert(1, f"  {parent}_id BIGINT NULL")
        lines.append(f"  CONSTRAINT fk_{table}_{parent} FOREIGN KEY ({parent}_id) REFERENCES {parent} (id)")
    body = ",\n".join(lines)
    return f"create {table}", f"CREATE TABLE {table} (\n{body}\n) DEFAULT CHARACTER SET utf8mb4;"


def first_column(table: str) -> tuple[str, str]:
    return (
        f"add {table} status",
        f"ALTER TABLE {table} ADD COLUMN status VARCHAR(20) NOT NULL DEFAULT 'active';",
    )


def index(table: str) -> tuple[str, str]:
    return f"index {table} name", f"CREATE INDEX ix_{table}_name ON {table} (name, status);"


def drop_column(table: str) -> tuple[str, str]:
    return f"drop {table} legacy code", f"ALTER TABLE {table} DROP COLUMN legacy_code;"


def seed_or_sample(table: str) -> tuple[str, str]:
    """Every table gets its first row early: later changes meet rows, as in a project that lives."""
    if table not in SEEDED:
        return f"sample {table}", f"INSERT INTO {table} (name) VALUES ('sample');"
    rows = "\n".join(f"INSERT INTO {table} (name) VALUES ('{name}');" for name in SEEDED[table])
    return f"seed {table}", rows


def second_column(table: str) -> tuple[str, str]:
    return (
        f"add {table} amount",
        f"ALTER TABLE {table} ADD COLUMN amount DECIMAL(12, 2) NOT NULL DEFAULT 0;",
    )


def reference_or_no_index(table: str) -> tuple[str, str]:
    if len(table) % 2:
        return f"unique {table} reference", (
            f"ALTER TABLE {table} ADD COLUMN reference VARCHAR(36) NULL;\n"
            f"CREATE UNIQUE INDEX ux_{table}_reference ON {table} (reference);"
        )
    return f"drop {table} index", f"DROP INDEX ix_{table}_name ON {table};"


def flag(table: str) -> tuple[str, str]:
    return f"add {table} draft", f"ALTER TABLE {table} ADD COLUMN is_draft TINYINT NOT NULL DEFAULT 0;"


def drop_flag(table: str) -> tuple[str, str]:
    return f"drop {table} draft", f"ALTER TABLE {table} DROP COLUMN is_draft;"


def third_column_or_no_sample(table: str) -> tuple[str, str]:
    if table in SEEDED:
        return f"add {table} updated at", f"ALTER TABLE {table} ADD COLUMN updated_at DATETIME NULL;"
    return f"remove {table} sample", f"DELETE FROM {table} WHERE name = 'sample';"


STEPS = (
    *(create, seed_or_sample, first_column, index, drop_column),
    *(second_column, reference_or_no_index, flag, drop_flag, third_column_or_no_sample),
)
NEW_TABLES_A_ROUND = 4


def migrations() -> list[tuple[str, str]]:
    """Title and SQL of each, in order: every round brings new tables and changes those of earlier rounds."""
    tables = list(TABLES)
    rounds = len(tables) // NEW_TABLES_A_ROUND + AGE_IN_ROUNDS
    found = []
    for number in range(rounds):
        for age, step in enumerate(STEPS):
            first = (number - age) * NEW_TABLES_A_ROUND
            found += [step(table) for table in tables[max(0, first) : max(0, first + NEW_TABLES_A_ROUND)]]
    return found


def files() -> dict[str, str]:
    return {
        f"V{number:03}__{title.replace(' ', '_')}.sql": f"{sql}\n"
        for number, (title, sql) in enumerate(migrations(), start=1)
    }


def main() -> int:
    wanted = files()
    if "--check" in sys.argv[1:]:
        there = {path.name: path.read_text() for path in FOLDER.glob("*.sql")}
        differing = sorted(
            name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name)
        )
        print("\n".join(differing) or f"{len(there)} migrations, all as generated")
        return 1 if differing else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.sql"):
        old.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text)
    print(f"{len(wanted)} migrations")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

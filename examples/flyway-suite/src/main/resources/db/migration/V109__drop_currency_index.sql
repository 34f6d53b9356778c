DROP INDEX ix_currency_name ON currency;

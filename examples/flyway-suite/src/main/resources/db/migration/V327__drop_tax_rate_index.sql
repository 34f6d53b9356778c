DROP INDEX ix_tax_rate_name ON tax_rate;

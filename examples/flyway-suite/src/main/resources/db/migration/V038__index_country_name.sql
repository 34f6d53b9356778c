CREATE INDEX ix_country_name ON country (name, status);

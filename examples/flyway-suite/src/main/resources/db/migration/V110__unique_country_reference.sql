ALTER TABLE country ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_country_reference ON country (reference);

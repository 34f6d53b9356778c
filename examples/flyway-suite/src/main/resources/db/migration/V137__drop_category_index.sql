DROP INDEX ix_category_name ON category;

DROP INDEX ix_purchase_name ON purchase;

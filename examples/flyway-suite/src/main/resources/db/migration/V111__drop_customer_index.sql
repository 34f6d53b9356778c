DROP INDEX ix_customer_name ON customer;

DROP INDEX ix_refund_name ON refund;

CREATE INDEX ix_refund_name ON refund (name, status);

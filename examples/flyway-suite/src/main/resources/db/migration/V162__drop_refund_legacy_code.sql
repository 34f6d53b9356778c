ALTER TABLE refund DROP COLUMN legacy_code;

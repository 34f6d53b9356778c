ALTER TABLE refund DROP COLUMN is_draft;

CREATE INDEX ix_review_name ON review (name, status);

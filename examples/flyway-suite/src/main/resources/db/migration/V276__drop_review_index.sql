DROP INDEX ix_review_name ON review;

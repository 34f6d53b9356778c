ALTER TABLE wishlist DROP COLUMN is_draft;

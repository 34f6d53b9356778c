ALTER TABLE wishlist_item DROP COLUMN is_draft;

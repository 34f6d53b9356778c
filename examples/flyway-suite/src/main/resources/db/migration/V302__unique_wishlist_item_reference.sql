ALTER TABLE wishlist_item ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_wishlist_item_reference ON wishlist_item (reference);

ALTER TABLE product_tag ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_product_tag_reference ON product_tag (reference);

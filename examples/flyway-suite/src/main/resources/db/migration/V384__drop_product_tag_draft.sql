ALTER TABLE product_tag DROP COLUMN is_draft;

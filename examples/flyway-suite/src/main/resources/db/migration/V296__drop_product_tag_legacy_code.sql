ALTER TABLE product_tag DROP COLUMN legacy_code;

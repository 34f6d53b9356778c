ALTER TABLE tag DROP COLUMN legacy_code;

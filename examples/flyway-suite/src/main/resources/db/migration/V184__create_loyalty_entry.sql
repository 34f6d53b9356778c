CREATE TABLE loyalty_entry (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  loyalty_account_id BIGINT NULL,
  name VARCHAR(100) NOT NULL,
  legacy_code VARCHAR(20) NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  CONSTRAINT fk_loyalty_entry_loyalty_account FOREIGN KEY (loyalty_account_id) REFERENCES loyalty_account (id)
) DEFAULT CHARACTER SET utf8mb4;

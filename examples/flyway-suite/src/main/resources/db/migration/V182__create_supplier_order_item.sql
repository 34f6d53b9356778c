CREATE TABLE supplier_order_item (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  supplier_order_id BIGINT NULL,
  name VARCHAR(100) NOT NULL,
  legacy_code VARCHAR(20) NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  CONSTRAINT fk_supplier_order_item_supplier_order FOREIGN KEY (supplier_order_id) REFERENCES supplier_order (id)
) DEFAULT CHARACTER SET utf8mb4;

-- A small shop with everything that dumps stumble over: foreign keys, a MyISAM table, binary data, generated
-- columns, a view on a view, a trigger, routines and an event, all of an account that exists nowhere else.
CREATE TABLE customer (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  email VARCHAR(120) NOT NULL,
  name VARCHAR(80) NOT NULL,
  password CHAR(40) DEFAULT NULL,
  note TEXT,
  since TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (id),
  UNIQUE KEY email (email),
  KEY name (name)
) ENGINE=InnoDB;
CREATE TABLE product (
  id INT NOT NULL,
  name VARCHAR(60) NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  gross DECIMAL(12,2) AS (price * 1.19) STORED,
  picture BLOB,
  PRIMARY KEY (id)
) ENGINE=InnoDB;
CREATE TABLE purchase (
  id BIGINT NOT NULL AUTO_INCREMENT,
  customer_id INT UNSIGNED NOT NULL,
  product_id INT NOT NULL,
  count INT NOT NULL DEFAULT 1,
  at DATETIME(3) NOT NULL,
  PRIMARY KEY (id),
  KEY customer (customer_id),
  CONSTRAINT purchase_customer FOREIGN KEY (customer_id) REFERENCES customer (id),
  CONSTRAINT purchase_product FOREIGN KEY (product_id) REFERENCES product (id)
) ENGINE=InnoDB;
CREATE TABLE visit (day DATE NOT NULL, hits INT NOT NULL, PRIMARY KEY (day)) ENGINE=MyISAM;
CREATE TABLE total (what VARCHAR(20) NOT NULL PRIMARY KEY, value BIGINT NOT NULL) ENGINE=InnoDB;
INSERT INTO customer (id, email, name, note) VALUES
  (1, 'a@example.org', 'Ada; "the first"', 'it''s -- no comment'), (2, 'b@example.org', 'Björn', NULL),
  (3, 'c@example.org', 'Çelik', '/* neither */ back\\slash\nand a new line'), (4, 'd@example.org', '日本', '\0\Z');
INSERT INTO product (id, name, price, picture) VALUES
  (1, 'pen', 1.50, x'00ff27225c0a0d1a'), (2, 'book', 19.90, NULL), (3, 'lamp', 35.00, x'89504e470d0a1a0a00');
INSERT INTO purchase (customer_id, product_id, count, at) VALUES
  (1, 1, 10, '2024-01-01 10:00:00.125'), (2, 3, 1, '2024-02-29 23:59:59.999'), (3, 2, 2, '2024-03-01 00:00:00');
INSERT INTO visit VALUES ('2024-01-01', 17), ('2024-01-02', 4);
INSERT INTO total VALUES ('purchases', 3);
CREATE DEFINER=`clerk`@`10.0.0.%` SQL SECURITY DEFINER VIEW bought AS
  SELECT c.name, p.product_id, p.count FROM customer c JOIN purchase p ON p.customer_id = c.id;
CREATE DEFINER=`clerk`@`10.0.0.%` SQL SECURITY DEFINER VIEW bought_much AS SELECT * FROM bought WHERE count > 5;
DELIMITER //
CREATE DEFINER=`clerk`@`10.0.0.%` TRIGGER purchase_counts AFTER INSERT ON purchase FOR EACH ROW
BEGIN
  UPDATE total SET value = value + 1 WHERE what = 'purchases';
END//
CREATE DEFINER=`clerk`@`10.0.0.%` PROCEDURE buy(who INT, what INT)
BEGIN
  INSERT INTO purchase (customer_id, product_id, at) VALUES (who, what, NOW(3));
END//
CREATE DEFINER=`clerk`@`10.0.0.%` FUNCTION spent(who INT) RETURNS DECIMAL(12,2) READS SQL DATA
RETURN (SELECT SUM(p.count * o.price) FROM purchase p JOIN product o ON o.id = p.product_id
        WHERE p.customer_id = who)//
DELIMITER ;
CREATE DEFINER=`clerk`@`10.0.0.%` EVENT tidy ON SCHEDULE EVERY 1 SECOND DO DELETE FROM purchase;

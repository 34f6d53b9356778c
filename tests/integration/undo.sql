CREATE TABLE customers (
  id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, note TEXT, born DATE, score DECIMAL(10,3),
  d DOUBLE, f FLOAT, b BLOB, e ENUM('a','b','c'), s SET('x','y','z'), j JSON, ts TIMESTAMP(6) NULL,
  dt DATETIME(3), t TIME(2), y YEAR, bits BIT(11), p POINT, big BIGINT UNSIGNED, tiny TINYINT,
  g1 INT AS (LENGTH(name)) STORED, g2 INT AS (tiny * 2) VIRTUAL, bin BINARY(4), KEY (g2)
);
CREATE TABLE orders (
  id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer INT, state VARCHAR(10) CHARACTER SET latin1,
  FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE
);
CREATE TABLE items (
  o BIGINT UNSIGNED, no INT, what CHAR(9) CHARACTER SET utf8mb4, PRIMARY KEY (o, no),
  FOREIGN KEY (o) REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE TABLE audit (w VARCHAR(60), n FLOAT, b BLOB);
CREATE TABLE keyed (k VARCHAR(36) CHARACTER SET ascii PRIMARY KEY, n INT NOT NULL DEFAULT 0, KEY (n));
CREATE TABLE parted (id INT AUTO_INCREMENT, n INT, PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE `od-d ``name` (id INT AUTO_INCREMENT PRIMARY KEY, `a b` INT);
CREATE TABLE mine (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=MyISAM;
CREATE TABLE mem (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=MEMORY;
CREATE VIEW v AS SELECT id, name FROM customers;
CREATE TRIGGER after_order AFTER INSERT ON orders FOR EACH ROW
  INSERT INTO audit VALUES (CONCAT('order ', NEW.id), NEW.id / 3, NULL);
CREATE PROCEDURE add_two(IN x INT) BEGIN INSERT INTO keyed (k, n) VALUES (UUID(), x); UPDATE keyed SET n = n + 1; END;
INSERT INTO customers (name, note, born, score, d, f, b, e, s, j, ts, dt, t, y, bits, p, big, tiny, bin)
  VALUES ('anna', 'größer', '2000-02-29', 1.5, 0.1, 0.1, x'00ff', 'a', 'x,y', '{"a": [1, 2.5, null]}',
  '2020-01-01 00:00:00.123456', '1999-12-31 23:59:59.999', '-10:20:30.55', 1999, 5, ST_PointFromText('POINT(1 2)'), 18446744073709551615, -5, 'ab'),
  ('bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO orders (customer, state) VALUES (1, 'new'), (1, 'paid'), (2, NULL);
INSERT INTO items VALUES (1, 1, 'pen'), (1, 2, 'ink'), (2, 1, NULL);
INSERT INTO audit VALUES ('twice', 0.1, NULL), ('twice', 0.1, NULL);
INSERT INTO keyed VALUES ('k', 1), ('L', 2), ('z', 3);
INSERT INTO parted (n) VALUES (1), (2), (3), (4);
INSERT INTO `od-d ``name` (`a b`) VALUES (1), (2);
INSERT INTO mine (n) VALUES (1), (2);
DELETE FROM mine WHERE id = 2;

-- A schema that is hard to write to: what `--workload data` has to know of it.
CREATE DATABASE hard CHARACTER SET utf8mb4;
USE hard;
CREATE TABLE n (n INT PRIMARY KEY);
INSERT INTO n WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM s WHERE i < 400) SELECT i FROM s;

CREATE TABLE customer (
  id INT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(80) CHARACTER SET latin1 COLLATE latin1_general_cs NOT NULL,
  name VARCHAR(40) NOT NULL, balance DECIMAL(8,2) NOT NULL, UNIQUE KEY (email));
INSERT INTO customer (email, name, balance) SELECT CONCAT('user', n, '@example.org'), CONCAT('Näme ', n), n FROM n;
CREATE TABLE `order` (
  id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL, state ENUM('new', 'paid', 'sént') NOT NULL,
  flags SET('a', 'b') NOT NULL, geo POINT NOT NULL, bits BIT(12) NOT NULL, doc JSON, `select` DATETIME(6) NOT NULL,
  CONSTRAINT made_by FOREIGN KEY (customer) REFERENCES customer (id));
INSERT INTO `order` (customer, state, flags, geo, bits, doc, `select`)
  SELECT n, 1 + n % 3, n % 4, ST_GeomFromText(CONCAT('POINT(', n, ' 1)')), n, CONCAT('{"a":', n, '}'),
  '2020-01-01' + INTERVAL n SECOND FROM n;
CREATE TABLE line (
  order_id BIGINT UNSIGNED NOT NULL, nr TINYINT UNSIGNED NOT NULL, qty INT UNSIGNED NOT NULL, price DECIMAL(10,2) NOT NULL,
  total DECIMAL(12,2) AS (qty * price) STORED, note CHAR(8) NOT NULL, PRIMARY KEY (order_id, nr),
  FOREIGN KEY (order_id) REFERENCES `order` (id) ON DELETE CASCADE);
INSERT INTO line (order_id, nr, qty, price, note) SELECT o.id, k.n, 1, 9.99, 'x' FROM `order` o, n k WHERE k.n <= 2;
CREATE TABLE link (
  customer INT NOT NULL, order_id BIGINT UNSIGNED NOT NULL, PRIMARY KEY (customer, order_id),
  FOREIGN KEY (customer) REFERENCES customer (id), FOREIGN KEY (order_id) REFERENCES `order` (id));
INSERT INTO link SELECT customer, id FROM `order`;
CREATE TABLE binary_key (id BINARY(16) PRIMARY KEY, v VARBINARY(50) NOT NULL);
INSERT INTO binary_key SELECT UNHEX(LEFT(SHA2(n, 256), 32)), UNHEX(LEFT(SHA2(n + 1, 256), 32)) FROM n;
CREATE TABLE text_key (
  code VARCHAR(12) CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci NOT NULL, lang CHAR(2) NOT NULL,
  v VARCHAR(99) NOT NULL, PRIMARY KEY (code, lang));
INSERT INTO text_key SELECT CONCAT('ä', n), 'de', 'text' FROM n;
CREATE TABLE times (id TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), t TIME NOT NULL, v CHAR(9) CHARACTER SET utf16 NOT NULL,
  PRIMARY KEY (id, t));
INSERT INTO times SELECT '2022-01-01' + INTERVAL n HOUR, '12:00:00', n FROM n;
CREATE TABLE numbers (id DECIMAL(20,4) NOT NULL, big BIGINT UNSIGNED NOT NULL, v FLOAT NOT NULL, PRIMARY KEY (id, big));
INSERT INTO numbers SELECT n * 1.25, 18446744073709550000 + n, n FROM n;
CREATE TABLE parted (id INT NOT NULL, d DATE NOT NULL, v INT NOT NULL, PRIMARY KEY (id, d))
  PARTITION BY RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN (2022));
INSERT INTO parted SELECT n, '2019-12-31' + INTERVAL n DAY, 1 FROM n;
CREATE TABLE `tàble ``%s?` (`ïd?` INT AUTO_INCREMENT PRIMARY KEY, `vàlue %` VARCHAR(30) NOT NULL, `x``y` INT NOT NULL,
  UNIQUE KEY (`vàlue %`));
INSERT INTO `tàble ``%s?` (`vàlue %`, `x``y`) SELECT CONCAT('v%s?', n), n FROM n;
CREATE TABLE tree (id INT AUTO_INCREMENT PRIMARY KEY, parent INT, name VARCHAR(9) NOT NULL,
  FOREIGN KEY (parent) REFERENCES tree (id) ON DELETE CASCADE);
INSERT INTO tree (parent, name) SELECT NULL, 'root' FROM n WHERE n <= 10;
INSERT INTO tree (parent, name) SELECT 1 + n % 10, 'leaf' FROM n;
CREATE TABLE watched (id SMALLINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL, stamp DATETIME NOT NULL);
INSERT INTO watched (v, stamp) SELECT n, '2020-01-01' FROM n;
CREATE TABLE stamped (k INT NOT NULL, stamp DATETIME NOT NULL, v INT NOT NULL, PRIMARY KEY (k), UNIQUE KEY (stamp));
INSERT INTO stamped SELECT n, '2020-01-01' + INTERVAL n SECOND, n FROM n;
CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL);
INSERT INTO audit (v) SELECT n FROM n;
CREATE TRIGGER watching AFTER UPDATE ON watched FOR EACH ROW INSERT INTO audit (v) VALUES (NEW.v);
CREATE TRIGGER stamping BEFORE INSERT ON stamped FOR EACH ROW SET NEW.stamp = '2030-01-01';
CREATE TABLE zero_dates (id INT PRIMARY KEY, d DATE NOT NULL, v INT NOT NULL);
SET sql_mode = '';
INSERT INTO zero_dates SELECT n, '0000-00-00', n FROM n;
SET sql_mode = DEFAULT;
CREATE TABLE float_key (f FLOAT PRIMARY KEY);
INSERT INTO float_key SELECT n / 3 FROM n;
CREATE TABLE no_key (a INT);
INSERT INTO no_key SELECT n FROM n;
CREATE TABLE hits (id INT PRIMARY KEY) ENGINE = MyISAM;
INSERT INTO hits SELECT n FROM n;
CREATE TABLE empty_one (id INT PRIMARY KEY);
CREATE VIEW seen AS SELECT id FROM `order`;

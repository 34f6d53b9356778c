-- 10,000 visitors with their last visit. All workloads of this folder name this file, so they share its tables.
CREATE TABLE digit (d INT NOT NULL);
INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);

CREATE TABLE visit (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  visitor INT NOT NULL,
  page VARCHAR(60) NOT NULL,
  seen DATETIME(6) NOT NULL,
  hits INT NOT NULL DEFAULT 1,
  UNIQUE KEY visitor (visitor),
  KEY page (page),
  KEY hits (hits)
) ENGINE = InnoDB;

INSERT INTO visit (visitor, page, seen)
  SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d, CONCAT('/page/', a.d, b.d, c.d), '2026-01-01'
  FROM digit a, digit b, digit c, digit d;
DROP TABLE digit;

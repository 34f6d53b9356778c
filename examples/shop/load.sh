#!/bin/sh
# An evening's orders as the shop's import writes them: one transaction each, on one connection.
set -e
orders="${ORDERS:-2000}"
awk -v orders="$orders" 'BEGIN {
    for (i = 1; i <= orders; i++) {
        some = 1 + i % 500
        print "START TRANSACTION;"
        print "INSERT INTO orders (customer_id, placed) VALUES (" some ", NOW());"
        print "INSERT INTO order_lines VALUES (LAST_INSERT_ID(), 1, " some ", 2);"
        print "UPDATE products SET stock = stock - 2 WHERE id = " some ";"
        print "COMMIT;"
    }
}' | mysql --defaults-file="$FLUSHLAB_OPTION_FILE" "$FLUSHLAB_DATABASE"
echo "loaded $orders orders"

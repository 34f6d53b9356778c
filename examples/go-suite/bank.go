// Package bank moves money between accounts.
package bank

import (
	"database/sql"
	"fmt"
)

// Transfer moves an amount and writes it down; it commits.
func Transfer(db *sql.DB, payer, payee string, amount int) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	taken, err := tx.Exec(
		"UPDATE account SET balance = balance - ? WHERE owner = ? AND balance >= ?", amount, payer, amount)
	if err != nil {
		return err
	}
	if rows, _ := taken.RowsAffected(); rows == 0 {
		return fmt.Errorf("%s has too little", payer)
	}
	if _, err := tx.Exec("UPDATE account SET balance = balance + ? WHERE owner = ?", amount, payee); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO transfer (payer, payee, amount)
		SELECT a.id, b.id, ? FROM account a, account b WHERE a.owner = ? AND b.owner = ?`, amount, payer, payee)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// Balance of an account.
func Balance(db *sql.DB, owner string) (balance float64, err error) {
	err = db.QueryRow("SELECT balance FROM account WHERE owner = ?", owner).Scan(&balance)
	return balance, err
}
